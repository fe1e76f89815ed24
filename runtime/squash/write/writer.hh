// Writes one squashfs file from a stream of entries, without anything on disk but the result. The form is squashfs 4.0:
// Linux fs/squashfs/squashfs_fs.h, and https://dr-emann.github.io/squashfs/squashfs.html in words.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/squash/index/block_sums.hh"
#include "runtime/squash/write/layer_sink.hh"

namespace berth::squash {

class CompressorPool;

/// Bytes of a file that may be stored uncompressed as a program; the interpreters that jobs start are smaller.
inline constexpr uint64_t largest_program = 8 << 20;

/// The tree is kept in memory; file data is compressed and written as it comes. The result is reproducible: the same
/// calls give the same bytes, whatever the pool has of threads and buffers.
class LayerWriter : public LayerSink {
  public:
    /// Writes to the empty regular file `fd`, opened for reading (to find duplicates) and writing, which the caller
    /// owns and closes after finish(). Codec and block size are those of `pool`, which must outlive it; many writers
    /// may share one. Null: one of its own with one thread and what is usual for the rest. `on_final` is told, by any
    /// thread, how many bytes from the start of the file stay as they are (but for the superblock, in the first
    /// hundred) and can be read by others. Throws Error.
    LayerWriter(int fd, CompressorPool* pool, std::function<void(uint64_t)> on_final = {});
    ~LayerWriter() override;
    LayerWriter(const LayerWriter&) = delete;
    LayerWriter& operator=(const LayerWriter&) = delete;

    std::string resolved(std::string_view path) const override;
    void add_directory(std::string_view path, const Attributes& attributes) override;
    void add_symlink(std::string_view path, const Attributes& attributes, std::string_view target) override;
    void add_special(std::string_view path, const Attributes& attributes, uint32_t type) override;
    void add_hardlink(std::string_view path, std::string_view existing) override;
    /// What is executable, an ELF file by its first bytes and no larger than largest_program is stored as it is, since
    /// starting it is then reading alone; not where `size` is 0.
    void begin_file(std::string_view path, const Attributes& attributes, uint64_t size = 0) override;
    void append(std::string_view data) override;
    void append_zeros(uint64_t size) override;
    void end_file() override;
    void remove(std::string_view path) override;
    void mark_implied_directories(std::string_view marker) override;

    /// Writes all metadata and the superblock. Does not fsync. Throws Error (ENOSPC and the like named).
    void finish();

    /// After finish(): of all blocks that were written.
    const BlockSums& sums() const;

    /// Number of entries so far, the root included.
    uint64_t entries() const;

    uint64_t memory() const override;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::squash
