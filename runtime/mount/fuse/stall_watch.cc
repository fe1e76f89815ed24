#include "runtime/mount/fuse/stall_watch.hh"

#include <exception>
#include <utility>

namespace berth::mount {

void StallWatch::begins() noexcept {
    uint64_t number = begun_.fetch_add(1) + 1;
    try {
        if (number == unwatched)
            start_thread();
        else if (asleep_.load())
            wake();
    } catch (const std::exception&) {
        // Without the watch a stuck thread is helped when another one has done something.
    }
}

void StallWatch::start_thread() {
    std::lock_guard lock(mutex_);
    if (!stopped_) thread_ = std::thread([this] { run(); });
}

void StallWatch::wake() {
    std::lock_guard lock(mutex_);
    asleep_ = false;
    changed_.notify_all();
}

void StallWatch::stop() {
    std::thread ended;
    {
        std::lock_guard lock(mutex_);
        stopped_ = true;
        ended.swap(thread_);
    }
    changed_.notify_all();
    if (ended.joinable()) ended.join();
}

/// Whether there was anything to see.
bool StallWatch::look() {
    uint64_t done = done_.load();
    bool progress = std::exchange(last_, done) != done;
    if (progress || begun_.load() == done) return progress;
    if (waits_()) call_();
    return true;
}

void StallWatch::run() {
    std::unique_lock lock(mutex_);
    for (int idle = 0; !stopped_;) {
        changed_.wait_for(lock, interval_, [&] { return stopped_; });
        if (stopped_) return;
        lock.unlock();
        idle = look() ? 0 : idle + 1;
        lock.lock();
        if (idle < quiet) continue;
        idle = 0;
        // Who begins now either sees that this sleeps, or is seen here.
        asleep_ = true;
        if (any_in_progress()) asleep_ = false;
        changed_.wait(lock, [&] { return stopped_ || !asleep_; });
    }
}

}  // namespace berth::mount
