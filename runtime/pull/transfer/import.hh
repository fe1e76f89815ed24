// Writes an image of the store as one squashfs file that berth, Enroot and any kernel can use.
#pragma once
#include <string>

#include "runtime/pull/progress/progress.hh"
#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/format/file_config.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

struct ImportOptions {
    bool force = false;  ///< replace a file of that name
    bool plain = false;  ///< the image's tree as it is: no files for Enroot
};

/// Makes the file `path` from the image `digest` (of a manifest or image index), which is in the store. `reference` is
/// carried in it for people. The file appears whole and durable, or not at all. Throws Error, also when it exists
/// already and `force` is not set.
void import_image(const store::Store& store, const Digest& digest, const std::string& reference,
                  const std::string& path, const ImportOptions& options, Meter& meter);

/// What Enroot looks for in an image: /etc/environment (NAME=VALUE lines) and /etc/rc (a shell script that becomes the
/// command). Pure.
std::vector<squash::AddedFile> enroot_files(const plan::ImageConfig& config);

/// `berth-pull import`: the command line of all this.
int import_command(int argc, char** argv);

/// Copies the open squashfs file `file`, or the one in a SIF file, which lies at `from`, to `path`. Returns the digest
/// of the image that it was made of, as far as it says so. Throws Error for what is neither.
std::string import_file(int file, const std::string& from, const std::string& path, const ImportOptions& options,
                        Meter& meter);

}  // namespace berth::pull
