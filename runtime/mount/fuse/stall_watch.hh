// Sees to it that a read that hangs, of a layer on a file system whose server does not answer, holds up only who asked
// for it: threads are called when a request is done with, and here none is.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace berth::mount {

/// A thread that looks now and then while requests come, and sleeps while none do; it starts when a server has had some
/// to do. Thread-safe.
class StallWatch {
  public:
    /// Both are called in the watch's own thread, and do not throw. `waits`: whether a request waits for a thread;
    /// `call`: when one does, and none of those who are at work has got anything done for `interval`.
    StallWatch(std::function<bool()> waits, std::function<void()> call,
               std::chrono::milliseconds interval = std::chrono::milliseconds(50))
        : waits_(std::move(waits)), call_(std::move(call)), interval_(interval) {}
    ~StallWatch() { stop(); }
    StallWatch(const StallWatch&) = delete;
    StallWatch& operator=(const StallWatch&) = delete;

    /// Around each request.
    void begins() noexcept;
    void ends() noexcept { done_.fetch_add(1); }

    /// Whether any request is begun and not done with.
    bool any_in_progress() const { return begun_.load() != done_.load(); }

    /// The thread ends; nobody is called from here on.
    void stop();

    /// Requests before there is a thread for it: to start a program takes fewer, and the thread costs as much as
    /// several of them.
    static constexpr uint64_t unwatched = 256;
    /// Intervals without a request after which it sleeps.
    static constexpr int quiet = 20;

  private:
    void start_thread();
    void wake();
    void run();
    bool look();

    const std::function<bool()> waits_;
    const std::function<void()> call_;
    const std::chrono::milliseconds interval_;
    std::atomic<uint64_t> begun_ = 0, done_ = 0;
    std::atomic<bool> asleep_ = false;
    uint64_t last_ = 0;  ///< done_ when it was looked at last
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopped_ = false;
    std::thread thread_;
};

}  // namespace berth::mount
