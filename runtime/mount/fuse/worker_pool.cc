#include "runtime/mount/fuse/worker_pool.hh"

#include <exception>

namespace berth::mount {

WorkerPool::~WorkerPool() {
    watchdog_.stop();
    std::vector<std::jthread> ended;
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
        ended.swap(threads_);
    }
    called_.notify_all();
}

void WorkerPool::served(bool another_waits) noexcept {
    if (!another_waits) {
        if (any_at_work()) idle_.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    idle_.store(0, std::memory_order_relaxed);
    if (at_work_.load(std::memory_order_relaxed) >= most_ ||
        waited_.fetch_add(1, std::memory_order_relaxed) % behind != behind - 1)
        return;
    call();
}

void WorkerPool::call() noexcept {
    try {
        call_one();
    } catch (const std::exception&) {
        // Fewer threads do as well, only slower.
    }
}

void WorkerPool::call_one() {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    if (parked_ > calls_) {
        ++calls_;
        called_.notify_one();
    } else if (threads_.size() < most_) {
        threads_.emplace_back(work_, std::ref(*this), threads_.size());
    } else {
        return;
    }
    at_work_.fetch_add(1, std::memory_order_relaxed);
}

void WorkerPool::park_if_idle() {
    if (idle_.load(std::memory_order_relaxed) < idle_requests || watchdog_.any_in_progress()) return;
    std::unique_lock lock(mutex_);
    if (idle_.load(std::memory_order_relaxed) < idle_requests || ended_) return;
    idle_.store(0, std::memory_order_relaxed);
    at_work_.fetch_sub(1, std::memory_order_relaxed);
    ++parked_;
    called_.wait(lock, [&] { return calls_ > 0 || ended_; });
    --parked_;
    if (calls_ > 0) --calls_;
}

}  // namespace berth::mount
