#include "runtime/mount/fuse/watchdog.hh"

#include <utility>

namespace berth::mount {

void Watchdog::wake() noexcept {
    std::lock_guard lock(mutex_);
    asleep_ = false;
    changed_.notify_all();
}

void Watchdog::stop() {
    {
        std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

/// Whether there were any requests since it looked last.
bool Watchdog::look() {
    uint64_t done = done_.load();
    bool progress = std::exchange(last_, done) != done;
    if (progress || begun_.load() == done) return progress;
    if (waits_()) call_();
    return true;
}

void Watchdog::sleep(std::unique_lock<std::mutex>& lock) {
    // A request that begins now either finds that this thread sleeps, or is found here.
    asleep_ = true;
    if (any_in_progress()) asleep_ = false;
    auto woken = [&] { return stopped_ || !asleep_; };
    if (changed_.wait_for(lock, rest * interval_, woken) || !idle_) return changed_.wait(lock, woken);
    lock.unlock();
    idle_();
    lock.lock();
    changed_.wait(lock, woken);
}

void Watchdog::run() {
    std::unique_lock lock(mutex_);
    sleep(lock);
    for (int idle = 0; !stopped_;) {
        if (changed_.wait_for(lock, interval_, [&] { return stopped_; })) return;
        lock.unlock();
        idle = look() ? 0 : idle + 1;
        lock.lock();
        if (idle < quiet) continue;
        idle = 0;
        sleep(lock);
    }
}

}  // namespace berth::mount
