// Lets several threads together take so many bytes a second.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace berth {

class Throttle {
  public:
    using Clock = std::chrono::steady_clock;

    /// Bytes a second; 0: no limit.
    explicit Throttle(uint64_t rate) : rate_(rate) {}

    /// When these bytes are due. The turn of whoever asks next comes when they have had their time.
    Clock::time_point turn(size_t bytes) {
        if (rate_ == 0) return {};
        std::lock_guard lock(mutex_);
        Clock::time_point out = std::max(next_, Clock::now());
        next_ = out + std::chrono::nanoseconds(bytes * 1'000'000'000 / rate_);
        return out;
    }

  private:
    const uint64_t rate_;
    std::mutex mutex_;
    Clock::time_point next_ = {};
};

}  // namespace berth
