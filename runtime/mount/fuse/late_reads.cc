#include "runtime/mount/fuse/late_reads.hh"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <cerrno>
#include <exception>
#include <mutex>
#include <shared_mutex>

#include "runtime/base/thread_buffer.hh"
#include "runtime/mount/fuse/channel.hh"
#include "runtime/mount/fuse/served.hh"

namespace berth::mount {

LateReads::~LateReads() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_all();
}

void LateReads::add(const ReadRequest& read) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(read);
    // Without a further thread it is answered when another wait has ended.
    if (idle_ < waiting_.size() && threads_.size() < thread_limit) try {
            threads_.emplace_back([this] { work(); });
        } catch (const std::exception&) {
            if (threads_.empty()) {
                waiting_.pop_back();
                throw;
            }
        }
    changed_.notify_one();
}

bool LateReads::next(ReadRequest& out) {
    std::unique_lock lock(mutex_);
    ++idle_;
    changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return false;
    out = waiting_.front();
    waiting_.pop_front();
    return true;
}

void LateReads::work() {
    ThreadBuffer::set_owner(&served_);
    ReadRequest read{};
    while (next(read)) {
        use_channel(session_, read.channel, nullptr);
        try {
            std::shared_lock lock(served_.in_use);
            reply_with_bytes(served_, read, [&] { return ended_ || fuse_req_interrupted(read.request) != 0; });
        } catch (...) {
            fuse_reply_err(read.request, EIO);
        }
    }
}

}  // namespace berth::mount
