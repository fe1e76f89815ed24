// The connections to one source: a worker has one while it needs one, and gives it back.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/oci/source/source.hh"

namespace berth::pull {

/// `first` and siblings of it. Any thread.
class SourcePool {
  public:
    SourcePool(oci::Source& first, size_t count) : free_{&first} {
        while (free_.size() < count) free_.push_back(siblings_.emplace_back(first.sibling()).get());
    }

    struct GiveBack {
        SourcePool* pool;
        void operator()(oci::Source* source) const { pool->give(source); }
    };
    /// Waits until one is free.
    std::unique_ptr<oci::Source, GiveBack> take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !free_.empty(); });
        // The first is the one that is connected already, and what came back last is warm.
        oci::Source* source = free_.front();
        free_.pop_front();
        return {source, GiveBack{this}};
    }

  private:
    void give(oci::Source* source) {
        std::lock_guard lock(mutex_);
        free_.push_front(source);
        changed_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<oci::Source>> siblings_;
    std::deque<oci::Source*> free_;
};

}  // namespace berth::pull
