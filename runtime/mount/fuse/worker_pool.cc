#include "runtime/mount/fuse/worker_pool.hh"

#include <exception>

namespace berth::mount {

WorkerPool::~WorkerPool() {
    stalls_.stop();
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
        if (any_at_work()) calm_.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    calm_.store(0, std::memory_order_relaxed);
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
    if (resting_ > calls_) {
        ++calls_;
        called_.notify_one();
    } else if (threads_.size() < most_) {
        threads_.emplace_back(work_, std::ref(*this), threads_.size());
    } else {
        return;
    }
    at_work_.fetch_add(1, std::memory_order_relaxed);
}

void WorkerPool::rest_if_calm() {
    if (calm_.load(std::memory_order_relaxed) < calm || stalls_.any_in_progress()) return;
    std::unique_lock lock(mutex_);
    if (calm_.load(std::memory_order_relaxed) < calm || ended_) return;
    calm_.store(0, std::memory_order_relaxed);
    at_work_.fetch_sub(1, std::memory_order_relaxed);
    ++resting_;
    called_.wait(lock, [&] { return calls_ > 0 || ended_; });
    --resting_;
    if (calls_ > 0) --calls_;
}

}  // namespace berth::mount
