#include "runtime/squash/write/compressor_pool.hh"

#include <cstring>
#include <new>
#include <system_error>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

/// Not cleared: that would touch every page.
std::unique_ptr<uint8_t[]> new_buffer(uint32_t size) { return std::unique_ptr<uint8_t[]>(new uint8_t[size]); }

}  // namespace

uint32_t Packer::pack(uint8_t* bytes, uint32_t size) {
    if (!compressor_) {
        scratch_ = new_buffer(block_size_);
        compressor_.reset(static_cast<sqfs_compressor_t*>(sqfs_copy(&prototype_)));
        if (!compressor_) throw std::bad_alloc();
    }
    sqfs_s32 packed = compressor_->do_block(compressor_.get(), bytes, size, scratch_.get(), block_size_);
    if (packed < 0) throw Error(cat("compressing a block: libsquashfs error ", packed));
    if (packed == 0 || static_cast<uint32_t>(packed) >= size) return 0;
    std::memcpy(bytes, scratch_.get(), static_cast<size_t>(packed));
    return static_cast<uint32_t>(packed);
}

CompressorPool::CompressorPool(const Compression& compression, const PoolLimits& limits)
    : compression_(compression), limits_(limits), prototype_(make_compressor(compression, limits.block_size)) {
    // What gives back, and what starts a thread, is to need no memory.
    threads_.reserve(limits.threads);
    buffers_.reserve(limits.buffers);
    free_.reserve(limits.buffers);
}

CompressorPool::~CompressorPool() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
        job_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
}

Buffer CompressorPool::take() {
    std::unique_lock lock(mutex_);
    buffer_.wait(lock, [&] { return !free_.empty() || buffers_.size() < limits_.buffers; });
    if (free_.empty()) free_.push_back(buffers_.emplace_back(new_buffer(limits_.block_size)).get());
    Buffer buffer(free_.back(), GiveBack{this});
    free_.pop_back();
    return buffer;
}

void CompressorPool::give(uint8_t* bytes) {
    std::lock_guard lock(mutex_);
    free_.push_back(bytes);
    buffer_.notify_one();
}

void GiveBack::operator()(uint8_t* bytes) const { pool->give(bytes); }

void CompressorPool::submit(std::function<void(Packer&)> job) {
    std::lock_guard lock(mutex_);
    if (idle_ <= jobs_.size() && threads_.size() < limits_.threads) start_thread();
    jobs_.push_back(std::move(job));
    job_.notify_one();
}

/// One thread does as well as many, only slower: where no more can be had, that is no failure.
void CompressorPool::start_thread() {
    try {
        threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
        if (threads_.empty()) throw;
    }
}

void CompressorPool::work() {
    Packer packer(*prototype_, limits_.block_size);
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        job_.wait(lock, [&] { return !jobs_.empty() || ending_; });
        --idle_;
        if (jobs_.empty()) return;
        auto job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job(packer);
        lock.lock();
    }
}

}  // namespace berth::squash
