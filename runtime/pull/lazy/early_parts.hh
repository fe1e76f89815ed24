// What is published of an image for starts that do not wait for its layers (ADR 0151).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/chunk_map.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

struct EarlyParts {
    std::string index;  ///< packed by zstd
    std::string sums;   ///< see ChunkSums
};

/// Of an image whose layers are all in the store. Throws Error.
EarlyParts make_early_parts(const store::Store& store, const oci::ImageDescription& image, const std::string& what);

/// The SHA-256 of each chunk of each layer file, in the order in which an image's index has the layers. Pure.
class ChunkSums {
  public:
    static constexpr size_t size = 32;
    /// Throws Error naming `what` unless there are `count` sums.
    ChunkSums(std::string bytes, uint64_t count, const std::string& what);
    bool match(uint32_t chunk, std::string_view bytes) const;

  private:
    std::string bytes_;
};

}  // namespace berth::pull
