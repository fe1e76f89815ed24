// Which pieces of layer files have been read, in the order of their first use.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/base/arrivals.hh"

namespace berth::squash {

/// Safe to use from many threads.
class PieceLog {
  public:
    using Clock = std::chrono::steady_clock;
    /// What is read later than `until` is left out.
    explicit PieceLog(uint32_t count, Clock::time_point until = Clock::time_point::max())
        : seen_(count), until_(until) {}
    void add(Arrivals::Pieces pieces) {
        std::lock_guard lock(mutex_);
        if (Clock::now() > until_) return;
        for (uint32_t piece = pieces.first; piece < pieces.first + pieces.count && piece < seen_.size(); ++piece) {
            if (!seen_[piece]) order_.push_back(piece);
            seen_[piece] = true;
        }
    }
    std::vector<uint32_t> pieces() const {
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
