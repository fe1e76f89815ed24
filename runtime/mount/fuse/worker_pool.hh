// The file server's adaptive worker count. The kernel wakes threads that wait in turn, each on another CPU: with one
// too many, a program that asks for one thing after the other takes up to twice as long; with one too few, requests
// wait for somebody else's decompression.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/mount/fuse/watchdog.hh"

namespace berth::mount {

/// Threads besides the one that always serves: started when first needed, parked while they are not. Thread-safe.
class WorkerPool {
  public:
    /// At most `most` threads, one or more; each runs `work` with its number, 0, 1, ..., which calls park_if_idle()
    /// before each wait for a request and returns when there will be no more of them. `waits`: whether a request waits;
    /// does not throw. `idle`: see Watchdog.
    WorkerPool(size_t most, std::function<bool()> waits, std::function<void(WorkerPool&, size_t)> work,
               std::function<void()> idle = {})
        : most_(most), work_(std::move(work)), watchdog_(std::move(waits), [this] { call(); }, std::move(idle)) {}
    /// Wakes those that are parked and waits for all.
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// A request is done with; `another_waits`: the next was there already. Calls a thread for every `behind` such
    /// requests.
    void served(bool another_waits) noexcept;

    /// Around the work on one request, in any thread that serves.
    class AtRequest {
      public:
        explicit AtRequest(WorkerPool& pool) : watch_(pool.watchdog_) { watch_.begins(); }
        ~AtRequest() { watch_.ends(); }
        AtRequest(const AtRequest&) = delete;
        AtRequest& operator=(const AtRequest&) = delete;

      private:
        Watchdog& watch_;
    };

    /// In a worker: returns at once, or, when it was not needed for a while and no request is in progress, when it is
    /// called or everything ends.
    void park_if_idle();

    /// Whether threads of the pool serve now, beside the one that always does.
    bool any_at_work() const { return at_work_.load(std::memory_order_relaxed) > 0; }

    /// Even one program that reads one thing has a few requests waiting, of the kernel's reading ahead.
    static constexpr uint32_t behind = 16;
    /// Requests in a row that found no other one waiting, after which one thread less will do.
    static constexpr uint32_t idle_requests = 512;

  private:
    void call() noexcept;
    void call_one();

    const size_t most_;
    const std::function<void(WorkerPool&, size_t)> work_;
    std::atomic<uint32_t> waited_ = 0, idle_ = 0;
    std::atomic<size_t> at_work_ = 0;
    std::mutex mutex_;
    std::condition_variable called_;
    size_t parked_ = 0, calls_ = 0;
    bool ended_ = false;
    std::vector<std::jthread> threads_;
    Watchdog watchdog_;
};

}  // namespace berth::mount
