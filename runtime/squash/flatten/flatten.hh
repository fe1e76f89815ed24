// One squashfs file out of the layers of an image: compressed blocks are copied as they are, only metadata is written
// anew.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/write/compression.hh"

namespace berth::squash {

/// A small file that goes into the result besides the image's own, or in place of one of them. Its parents are made
/// when they are missing; when one of them is no directory in the image, the file is left out.
struct AddedFile {
    std::string path;  ///< relative and normalised
    std::string content;    ///< of a symbolic link: its target
    uint32_t mode = 0644;   ///< with S_IFLNK or S_IFDIR: a link or a directory instead of a file
};

/// How the result is to be.
struct FlattenForm {
    std::vector<AddedFile> added = {};
    /// Of all blocks; nothing: that of most of the data, so that little is packed anew.
    std::optional<Compression> compression = {};
    uint64_t start = 0;  ///< where the squashfs begins in the file, a multiple of 4096; nothing before it is touched
};

/// Told how many bytes of the blocks have been copied or packed anew, and how many there are.
using Copied = std::function<void(uint64_t bytes, uint64_t total)>;

/// Writes `tree` (which merge() made of `layers`) to the regular file `fd`, opened for reading and writing, which has
/// nothing at and behind `form.start`. Only
/// the blocks that the tree needs are copied, by copy_file_range, so that file systems with reflinks may share them.
/// `layers` are the open files in the order of `infos`. When these differ in codec or block size, the format of most of
/// the data is kept and the rest packed anew. Reproducible; does not fsync. Device nodes are left out, as in layers.
/// Throws Error naming `what`.
void flatten(const Tree& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos,
             const FlattenForm& form, int fd, const std::string& what, const Copied& copied = {});

}  // namespace berth::squash
