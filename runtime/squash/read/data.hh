// Reads the bytes of files out of layer files: blocks and fragments, decompressed with a cache that has a byte limit.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/index/index.hh"

namespace berth::squash {

/// Safe to use from many threads. Corrupt or truncated layer files give EIO, never a crash.
class DataReader {
  public:
    /// Takes the layer files in the order of Index::layers(). `cache_bytes` bounds the decompressed blocks kept
    /// (fragments, partial blocks).
    DataReader(std::vector<Fd> layer_files, const std::vector<LayerInfo>& layers, size_t cache_bytes);
    ~DataReader();

    /// Fills `out` with the bytes of `file` at `offset`. Returns the number of bytes read (short only at the end of the
    /// file), or -errno.
    long read(const FileData& file, uint64_t offset, std::span<char> out);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::squash
