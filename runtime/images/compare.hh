// Whether two images have the same files.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"

namespace berth {

struct ImageView {
    const squash::Index& index;
    squash::DataReader& data;
};

/// Where `is` first differs from `wanted`: "PATH: what is the matter", empty when it does not. Names, kinds, modes,
/// owners, times, links, extended attributes and all bytes count; how they are stored does not. At the paths of `added`
/// these files may stand in place of what `wanted` has there. `read` is told of bytes, and throws to stop. Throws Error
/// when an index is damaged.
std::string first_difference(const ImageView& is, const ImageView& wanted, const std::vector<squash::AddedFile>& added,
                             const std::function<void(uint64_t bytes)>& read);

}  // namespace berth
