// The small files of a data set in the order in which they are stored. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/squash/index/index.hh"

namespace berth::squash {

struct SmallFiles {
    std::vector<uint32_t> inodes;  ///< in the order in which their bytes are stored
    uint64_t memory = 0;  ///< bytes that the kernel takes for all of them: their pages, and what it keeps of each
};

/// Regular files that have bytes, but no more than `largest_small_file`. None when they take more than `most_memory`;
/// looking for them takes less than a hundredth of that.
SmallFiles small_files(const Index& index, uint64_t most_memory);

/// What one request brings.
inline constexpr uint64_t largest_small_file = 128 << 10;

}  // namespace berth::squash
