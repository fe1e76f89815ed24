// Writes an image as one file: a squashfs that berth, Enroot and any kernel can use, or a SIF file.
#pragma once
#include <string>

#include "runtime/pull/export/image_file.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// Makes the file `path` from the image `digest` (of a manifest or image index), which is in the store. `reference` is
/// carried in it for people. The file appears whole and durable, or not at all, and is the same for the same image.
/// Throws Error, also when it exists already and `force` is not set.
void import_image(const store::Store& store, const Digest& digest, const plan::Reference& reference,
                  const std::string& path, const ImportOptions& options, Meter& meter);

/// Makes the file `path` of the open squashfs or SIF file `file`, which lies at `from`. What need not be written anew
/// is copied: a SIF file that is to be one, with all that is in it. Returns the digest of the image that it was made
/// of, as far as it says so. Throws Error for what is neither.
std::string import_file(int file, const std::string& from, const std::string& path, const ImportOptions& options,
                        Meter& meter);

}  // namespace berth::pull
