// How much of a pull goes on at once: what the site's memory and connections, and this process's CPUs, leave room for.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/oci/manifest.hh"
#include "runtime/squash/write/compression.hh"

namespace berth::pull {

struct PullLimits {
    squash::Compression compression = {};
    unsigned connections = 4;           ///< layers at a time, at most
    uint64_t memory = 128ULL << 20;     ///< bytes of the process
    unsigned threads = 0;               ///< that compress, at most; 0: one for each CPU that this process may use
    uint64_t image_size = 0;            ///< bytes that an image's layers may have, packed; 0: no limit
    std::string image_size_rule = {};   ///< "FILE:LINE: KEY" of that limit, for the error
};

struct Capacity {
    unsigned layers = 1;  ///< fetched and converted at a time
    squash::PoolLimits pool;
};

/// Pure. Memory bounds both: first the layers, with at most half of the room, then the threads. There is always one of
/// each, so that the least it can do with is least_memory. What grows with an image is not counted: the names of the
/// files of the layers being converted, about 300 bytes each, and the window of a zstd layer, which is 8 MiB for what
/// builders write by default; the largest ones wait for each other (oci::LargeWindows).
Capacity capacity_for(const PullLimits& limits, unsigned cpus);

/// Throws Error naming `what` when the image's layers are larger, packed, than the limits say.
void check_size(const oci::Manifest& manifest, const PullLimits& limits, const std::string& what);

/// Bytes that one layer and one thread need, whatever the codec.
inline constexpr uint64_t least_memory = 48ULL << 20;

}  // namespace berth::pull
