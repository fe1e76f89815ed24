// Reads the bytes of files out of layer files: blocks and fragments, decompressed with a cache that has a byte limit.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/format/part_sums.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/file_stamp.hh"

namespace berth {
class ChunkMap;
}

namespace berth::squash {

class ChunkLog;

/// Layer files that come while they are read, or reads of which are noted.
struct ComingLayers {
    std::shared_ptr<ChunkMap> map = {};  ///< null: all of them are here
    std::vector<uint32_t> first = {};         ///< for each layer file, the number of its first chunk
    std::shared_ptr<ChunkLog> log = {};       ///< of what is read; null: none
    std::function<bool()> interrupted = {};   ///< for reads that do not say what interrupts them
    explicit operator bool() const { return map || log; }
};

/// By what is read of files that others may write to is held to what was there before. What differs is -EIO.
struct Guards {
    std::vector<FileStamp> stamps = {};  ///< of each layer file; those without one are not asked
    std::shared_ptr<const PartSums> sums = {};  ///< of the one file that has all layers; null: none
};

/// Safe to use from many threads. Corrupt or truncated layer files give EIO, never a crash.
class DataReader {
  public:
    /// Takes the layer files in the order of Index::layers(). `cache_bytes` bounds the decompressed blocks kept
    /// (fragments, partial blocks).
    DataReader(std::vector<Fd> layer_files, const std::vector<LayerInfo>& layers, size_t cache_bytes,
               ComingLayers coming = {}, const Guards& guards = {});
    ~DataReader();

    /// Fills `out` with the bytes of `file` at `offset`. Returns the number of bytes read (short only at the end of the
    /// file), or -errno. Waits for bytes that have still to come, see ChunkMap::wait().
    long read(const FileData& file, uint64_t offset, std::span<char> out,
              const std::function<bool()>& interrupted = {});

    /// Gives back what is kept of reads that are over, but for the buffers of threads (ThreadBuffer::forget()). Nobody
    /// may read meanwhile.
    void shrink();

    /// False when read() would wait.
    bool is_here(const FileData& file, uint64_t offset, uint64_t size) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::squash
