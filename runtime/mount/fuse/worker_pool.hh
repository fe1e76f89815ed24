// How many threads wait for requests: the kernel wakes those who wait in turn, each on another CPU, so that one too
// many costs a program that asks for one thing after the other half of its time; one too few lets requests wait for
// somebody else's decompression.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/mount/fuse/stall_watch.hh"

namespace berth::mount {

/// Threads besides the one that always serves: started when first needed, at rest while they are not. Thread-safe.
class WorkerPool {
  public:
    /// At most `most` threads; each runs `work` with its number, 0, 1, ..., which calls rest_if_calm() before each wait
    /// for a request and returns when there will be no more of them. `waits`: whether a request waits; does not throw.
    WorkerPool(size_t most, std::function<bool()> waits, std::function<void(WorkerPool&, size_t)> work)
        : most_(most), work_(std::move(work)), stalls_(std::move(waits), [this] { call(); }) {}
    /// Wakes those at rest and waits for all.
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// A request is done with; `another_waits`: the next was there already. Calls a thread for every `behind` such
    /// requests.
    void served(bool another_waits) noexcept;

    /// Around the work on one request, in any thread that serves.
    class AtRequest {
      public:
        explicit AtRequest(WorkerPool& pool) : watch_(pool.has_threads() ? &pool.stalls_ : nullptr) {
            if (watch_) watch_->begins();
        }
        ~AtRequest() {
            if (watch_) watch_->ends();
        }
        AtRequest(const AtRequest&) = delete;
        AtRequest& operator=(const AtRequest&) = delete;

      private:
        StallWatch* watch_;
    };

    /// In a worker: returns at once, or, when it has been calm and nobody is at a request, when it is called or
    /// everything ends.
    void rest_if_calm();

    /// Whether threads of the pool serve now, beside the one that always does.
    bool any_at_work() const { return at_work_.load(std::memory_order_relaxed) > 0; }
    /// Whether served() has anything to decide.
    bool has_threads() const { return most_ > 0; }

    /// Even one program that reads one thing has a few requests waiting, of the kernel's reading ahead.
    static constexpr uint32_t behind = 16;
    /// Requests one after another that none followed closely, after which one thread less will do.
    static constexpr uint32_t calm = 512;

  private:
    void call() noexcept;
    void call_one();

    const size_t most_;
    const std::function<void(WorkerPool&, size_t)> work_;
    std::atomic<uint32_t> waited_ = 0, calm_ = 0;
    std::atomic<size_t> at_work_ = 0;
    std::mutex mutex_;
    std::condition_variable called_;
    size_t resting_ = 0, calls_ = 0;
    bool ended_ = false;
    std::vector<std::jthread> threads_;
    StallWatch stalls_;
};

}  // namespace berth::mount
