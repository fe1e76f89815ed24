// Which stored blocks were found right a moment ago, so that reading them in small pieces does not mean to read the
// whole of each every time.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/squash/read/block_cache.hh"

namespace berth::squash {

/// Safe to use from many threads. It forgets: by time, since what lies on a disk can change later, and when two blocks
/// share a place in the table.
class CheckedBlocks {
  public:
    /// `now` is in seconds from any start.
    bool has(const BlockKey& key, uint32_t now) const;
    void add(const BlockKey& key, uint32_t now);
    /// Forgets all, and gives the memory back.
    void clear();

    static constexpr uint32_t seconds = 10;
    static constexpr size_t places = 1 << 14;  ///< 2 GB of blocks of 128 KiB

  private:
    /// 40 bits of the block's hash, which are not those of its place, and 24 of the time
    using Place = std::atomic<uint64_t>;
    struct Unmap {
        void operator()(void* memory) const;
    };
    static Place* zeroed();

    std::unique_ptr<Place[], Unmap> places_{zeroed()};
};

}  // namespace berth::squash
