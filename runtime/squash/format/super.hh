// The superblock of a squashfs 4.0 file, and the checked access to the file that all readers of its metadata share.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/squash/format/codec.hh"
#include "runtime/squash/format/part_sums.hh"

namespace berth::squash {

/// A squashfs file that is being read: every error names it, every read stays inside it.
struct SquashFile {
    int fd = -1;
    std::string what;
    uint64_t size = 0;   ///< bytes that may be read: what the superblock counts as used
    uint64_t start = 0;  ///< where the squashfs starts in the file behind `fd`; all offsets count from there
    const PartSums* sums = nullptr;  ///< of what may be read; null: all of it

    /// Fills all of `out` with the bytes at `offset`; throws Error past the end.
    void read(std::span<char> out, uint64_t offset) const;
    /// Throws the Error of a damaged file: `problem` says what is wrong ("a directory is in itself").
    [[noreturn]] void damaged(const std::string& problem) const;
    /// Throws the Error of a file past one of the limits.
    [[noreturn]] void too_large(const std::string& problem) const;
};

/// The superblock's fields, all within bounds. Offsets are bytes from the start of the squashfs. Source: Linux
/// fs/squashfs/squashfs_fs.h.
struct Super {
    uint32_t inodes = 0;
    uint32_t block_size = 0;
    uint32_t fragments = 0;
    uint16_t ids = 0;
    Codec codec = Codec::none;
    uint64_t root = 0;  ///< reference of the root's inode
    uint64_t id_table = 0;
    uint64_t xattr_table = 0;  ///< 0 when there is none
    uint64_t inode_table = 0;
    uint64_t directory_table = 0;
    uint64_t fragment_table = 0;
};

/// Reads and checks the superblock and sets `file.size`, which before is the space there is (0: all of the file).
/// Throws Error for another version, an unsupported codec, or a truncated file.
Super read_super(SquashFile& file);

/// Whether a squashfs is as `mksquashfs -stream` writes it.
bool has_superblock_last(int fd, uint64_t start);

/// Makes a file that `mksquashfs -stream` wrote, whose superblock is its end, one that every reader knows: only the
/// newest tools read the other form, and Linux does not. Any other file stays as it is.
void put_superblock_first(int fd, const std::string& what);

}  // namespace berth::squash
