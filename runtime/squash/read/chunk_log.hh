// Which chunks of layer files have been read, in the order of their first use.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/base/chunk_map.hh"

namespace berth::squash {

/// Safe to use from many threads.
class ChunkLog {
  public:
    using Clock = std::chrono::steady_clock;
    /// What is read later than `until` is left out.
    explicit ChunkLog(uint32_t count, Clock::time_point until = Clock::time_point::max())
        : seen_(count), until_(until) {}
    void add(ChunkMap::Chunks chunks) {
        std::lock_guard lock(mutex_);
        if (Clock::now() > until_) return;
        for (uint32_t chunk = chunks.first; chunk < chunks.first + chunks.count && chunk < seen_.size(); ++chunk) {
            if (!seen_[chunk]) order_.push_back(chunk);
            seen_[chunk] = true;
        }
    }
    std::vector<uint32_t> chunks() const {
        std::lock_guard lock(mutex_);
        return order_;
    }

  private:
    mutable std::mutex mutex_;
    std::vector<bool> seen_;
    std::vector<uint32_t> order_;
    Clock::time_point until_;
};

}  // namespace berth::squash
