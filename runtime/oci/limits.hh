// What one layer may ask for before it is refused.
#pragma once
#include <cstdint>

namespace berth::oci {

/// Bounds for memory and disk, far above any honest image.
struct LayerLimits {
    uint64_t unpacked_bytes = 1ULL << 40;  ///< of the tar stream; and of the files in it, where holes count like data
    uint64_t entries = 10'000'000;         ///< tar entries, the skipped ones included
    /// of memory for names, targets and attributes: three million entries, implied directories included
    uint64_t tree_bytes = 1ULL << 30;
    uint64_t xattr_bytes = 64ULL << 20;    ///< names and values of all xattrs kept, which stay in memory until the end
};

}  // namespace berth::oci
