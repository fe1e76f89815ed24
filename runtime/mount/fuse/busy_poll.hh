// Whether a thread of the server watches for the next request or sleeps until it comes. A program that walks a tree or
// imports asks again 10 to 40 us after each answer; to put a CPU to sleep and wake it costs as much again, and several
// times that on a virtual machine.
#pragma once
#include <chrono>
#include <cstdint>

namespace berth::mount {

/// Learns from how long the requests before let wait. Of one thread.
class BusyPoll {
  public:
    /// `limit`: how long is watched before sleeping; 0: never.
    explicit BusyPoll(std::chrono::nanoseconds limit) : limit_(limit) {}

    /// Whether the next request is likely to come within the limit.
    bool worthwhile() const { return credit_ > 0; }

    std::chrono::nanoseconds limit() const { return limit_; }

    /// What the last wait for a request was: how long, and whether it began with watching.
    void waited(std::chrono::nanoseconds time, bool watched);

    /// While it watched, the CPU was taken from it for somebody else.
    void was_interrupted();

    /// Short waits before waits are watched, where few between them are long ...
    static constexpr uint32_t first_needed = 16;
    /// ... and how many at most, when it was in vain time after time: one who always comes a little too late costs next
    /// to nothing.
    static constexpr uint32_t last_needed = 4096;
    /// And where programs want the CPU that it watches on.
    static constexpr uint32_t needed_among_others = 1024;
    /// One that is too long counts as so many short ones.
    static constexpr int late = 4;
    static constexpr int first_credit = 2 * late;
    static constexpr int most_credit = 8 * late;

  private:
    void slept(bool shortly);

    std::chrono::nanoseconds limit_;
    uint32_t short_waits_ = 0, needed_ = first_needed;
    int credit_ = 0;
};

}  // namespace berth::mount
