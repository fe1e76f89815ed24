// Reads the tree of a squashfs file that anybody may have written.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/squash/format/part_sums.hh"
#include "runtime/squash/format/sif.hh"
#include "runtime/squash/index/tree.hh"

namespace berth::squash {

/// Limits that keep a hostile file from taking the machine; a file past them is refused with Error.
struct TreeLimits {
    uint64_t inodes = 20'000'000;
    unsigned depth = 1024;
    uint64_t metadata_bytes = 4ULL << 30;  ///< unpacked inode, directory and xattr tables together
};

/// Reads all metadata of the squashfs 4.0 file `fd` (gzip, lzo, xz, lz4, zstd). Files will refer to layer number
/// `layer`. `info` receives codec and block size (its name is left as it is). Throws Error naming `what` for anything
/// out of bounds or of another version. The squashfs is all of the file, or the part `place` of it (a partition of a
/// SIF file): the tree's offsets are those of the whole file either way. What is read is held to `sums`, if there
/// are any.
Tree read_tree(int fd, const std::string& what, uint32_t layer, LayerInfo& info, const TreeLimits& limits = {},
               const Extent& place = {}, const PartSums* sums = nullptr);

}  // namespace berth::squash
