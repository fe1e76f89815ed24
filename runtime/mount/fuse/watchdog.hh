// A watchdog for stalled reads. Workers are called when a request is done; a read of a layer on a file system that does
// not answer is never done, and must hold up only the program that asked for it.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace berth::mount {

/// A thread that looks at intervals while there are requests, and sleeps while there are none. Thread-safe.
class Watchdog {
  public:
    /// All are called in the watchdog's own thread, and do not throw. `waits`: whether a request waits for a thread;
    /// `call`: when one does, and no request has been completed for `interval`; `idle`: once when there has been no
    /// request for (quiet + rest) intervals. Throws std::system_error.
    Watchdog(std::function<bool()> waits, std::function<void()> call, std::function<void()> idle = {},
             std::chrono::milliseconds interval = std::chrono::milliseconds(50))
        : waits_(std::move(waits)),
          call_(std::move(call)),
          idle_(std::move(idle)),
          interval_(interval),
          thread_([this] { run(); }) {}
    ~Watchdog() { stop(); }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    /// Around each request.
    void begins() noexcept {
        begun_.fetch_add(1);
        if (asleep_.load()) wake();
    }
    void ends() noexcept { done_.fetch_add(1); }

    /// Whether any request is begun and not done.
    bool any_in_progress() const { return begun_.load() != done_.load(); }

    /// Ends the thread; nobody is called from here on.
    void stop();

    /// Intervals without a request after which it sleeps.
    static constexpr int quiet = 20;
    /// More of them, in which it sleeps already, before all counts as idle.
    static constexpr int rest = 40;

  private:
    void wake() noexcept;
    void run();
    bool look();
    void sleep(std::unique_lock<std::mutex>& lock);

    const std::function<bool()> waits_;
    const std::function<void()> call_;
    const std::function<void()> idle_;
    const std::chrono::milliseconds interval_;
    std::atomic<uint64_t> begun_ = 0, done_ = 0;
    std::atomic<bool> asleep_ = false;
    uint64_t last_ = 0;  ///< done_ when it was looked at last
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopped_ = false;
    std::thread thread_;  ///< last: it uses all the others
};

}  // namespace berth::mount
