// Whether a squashfs file that `berth import` has written is the image that it is said to be: for files on paths that
// other people write to.
#pragma once
#include <optional>
#include <string>

#include "runtime/pull/progress/progress.hh"
#include "runtime/pull/verify/verify_deep.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

struct VerifiedFile {
    std::string problem;  ///< the first difference, a line; empty: there is none
    std::string image;    ///< what the file is of, for people
    uint64_t names = 0;   ///< in the file
    uint64_t bytes = 0;   ///< of its files
};

/// Compares the file with the layers of `image` (none: what the file says it is of), whatever the form in which either
/// is stored: each name with all that belongs to it, each byte, and the settings of the process. An image that is not
/// in the store is pulled, as `options` say. Throws Error when the file, or the image, cannot be read or had.
VerifiedFile verify_file(const store::Store& store, const std::string& path,
                         const std::optional<plan::Reference>& image, const OptionsFor& options, Meter& meter);

}  // namespace berth::pull
