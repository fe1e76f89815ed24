// Writes one squashfs file from a stream of entries, without anything on disk but the result.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/squash/index/block_sums.hh"

namespace berth::squash {

/// Attributes of an entry. `mode` holds permission bits only (07777). Times are seconds since 1970 (clamped to 32 bits
/// unsigned). Only user.* xattrs are stored; the caller drops all others.
struct Attributes {
    uint32_t mode = 0755;
    uint32_t uid = 0;
    uint32_t gid = 0;
    int64_t mtime = 0;
    std::map<std::string, std::string> xattrs = {};
};

class CompressorPool;

/// Bytes of a file that may be stored uncompressed as a program; the interpreters that jobs start are smaller.
inline constexpr uint64_t largest_program = 8 << 20;

/// The tree is kept in memory; file data is compressed and written as it comes. The result is reproducible: the same
/// calls give the same bytes, whatever the pool has of threads and buffers.
///
/// Paths are relative and normalised by the caller ("usr/bin/ls"; "" is the root): an empty, "." or ".." component is a
/// logic error. Missing parents are made with default attributes. An entry replaces an earlier one of the same path
/// (last wins), but a directory entry over a directory only replaces its attributes. A child under a non-directory
/// turns that parent into a directory. Names `.wh.NAME` and `.wh..wh..opq` are stored like any other file: they are
/// data of the later merge (tree.hh).
class LayerWriter {
  public:
    /// Writes to the empty regular file `fd`, opened for reading (to find duplicates) and writing, which the caller
    /// owns and closes after finish(). Codec and block size are those of `pool`, which must outlive it; many writers
    /// may share one. Null: one of its own with one thread and what is usual for the rest. `on_final` is told, by any
    /// thread, how many bytes from the start of the file stay as they are (but for the superblock, in the first
    /// hundred) and can be read by others. Throws Error.
    LayerWriter(int fd, CompressorPool* pool, std::function<void(uint64_t)> on_final = {});
    ~LayerWriter();
    LayerWriter(const LayerWriter&) = delete;
    LayerWriter& operator=(const LayerWriter&) = delete;

    /// `path` with the symlinks among its parent components followed inside the tree so far, as the kernel would in a
    /// chroot, wherever they lead to a directory that exists; a symlink that leads elsewhere stays in the path (and
    /// gives way to a directory when a child is added).
    std::string resolved(std::string_view path) const;

    void add_directory(std::string_view path, const Attributes& attributes);
    void add_symlink(std::string_view path, const Attributes& attributes, std::string_view target);
    /// `type` is S_IFIFO or S_IFSOCK.
    void add_special(std::string_view path, const Attributes& attributes, uint32_t type);
    /// Throws Error when `existing` is missing or a directory. A link to a symlink shares the symlink.
    void add_hardlink(std::string_view path, std::string_view existing);

    /// A regular file: begin, then exactly its bytes by append / append_zeros (sparse), then end. `size` is how many
    /// are to come, 0 where that is not known: what is executable, an ELF file by its first bytes and no larger than
    /// largest_program is stored as it is, since starting it is then reading alone.
    void begin_file(std::string_view path, const Attributes& attributes, uint64_t size = 0);
    void append(std::string_view data);
    void append_zeros(uint64_t size);
    void end_file();

    /// Puts an empty file `marker` into every directory, the root included, that no entry made but the path of one
    /// below it: the merge must not take the attributes of such a directory for the layer's word.
    void mark_implied_directories(std::string_view marker);

    /// Writes all metadata and the superblock. Does not fsync. Throws Error (ENOSPC and the like named).
    void finish();

    /// After finish(): of all blocks that were written.
    const BlockSums& sums() const;

    /// Number of entries so far, the root included.
    uint64_t entries() const;

    /// About the memory that the tree takes, in bytes: directories that only a path implies and what has been replaced
    /// are in it.
    uint64_t memory() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::squash
