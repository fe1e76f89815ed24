// What an index says of an image: its layers, inodes, entries, and where the bytes of files are.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/squash/format/codec.hh"

namespace berth::squash {

/// A layer file that the index points into: position in `layers()` is the layer number of a file.
struct LayerInfo {
    /// file name in the store (layers/<name>), or empty for a foreign single file given by the caller
    std::string name;
    Codec codec = Codec::zstd;
    uint32_t block_size = 0;  ///< bytes, a power of two from 4 KiB to 1 MiB
};

/// An inode as served. Numbers start at 1 (the root), so they are FUSE inode numbers as they stand.
struct InodeView {
    uint32_t mode = 0;  ///< type and permission bits
    uint32_t nlink = 0;
    uint32_t rdev = 0;          ///< of a device, as stat(2) has it; else 0
    int64_t mtime = 0;          ///< seconds since 1970
    uint64_t size = 0;          ///< bytes of a file, length of a symlink's target
    uint32_t uid = 0, gid = 0;  ///< as recorded in the image; the server shows the caller's instead
};

/// A name in a directory. It lives as long as the index, and no longer than until Index::shrink().
struct Entry {
    std::string_view name;  ///< one component, byte-exact
    uint32_t inode = 0;
    uint32_t mode = 0;  ///< as in InodeView
};

enum class SeekFor { data, hole };

/// Where the bytes of a regular file are. All sizes and offsets are bytes; what it points to is the index's.
struct FileData {
    uint32_t layer = 0;                ///< position in Index::layers()
    uint64_t size = 0;                 ///< of the file, its holes included
    uint64_t start = 0;                ///< offset of the first block in the layer file
    const uint32_t* blocks = nullptr;  ///< on-disk size of each block; bit 24 set: stored uncompressed; 0: a hole
    uint32_t block_count = 0;
    uint32_t first_sum = 0;  ///< the block that sums[0] is at
    /// running sums of the on-disk sizes, one every 64 blocks from first_sum on; null: add up `blocks`
    const uint64_t* sums = nullptr;
    /// of the stored bytes of each block, as format::bulk_hash in index_format.hh has it, 0: not known; null: none is
    const uint64_t* hashes = nullptr;
    bool has_fragment = false;
    uint64_t fragment_start = 0;   ///< offset of the fragment block in the layer file
    uint32_t fragment_size = 0;    ///< on-disk size of it, bit 24 as above
    uint32_t fragment_offset = 0;  ///< where the tail starts in the unpacked fragment block
    uint64_t fragment_hash = 0;    ///< of the fragment's stored bytes; 0: not known
};

}  // namespace berth::squash
