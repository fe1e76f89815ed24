// The threads that compress, and the buffers of the blocks on their way: one pool for all files that a process writes.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/squash/write/compression.hh"

namespace berth::squash {

class CompressorPool;

struct GiveBack {
    CompressorPool* pool = nullptr;
    void operator()(uint8_t* bytes) const;
};
/// As many bytes as a block of the pool has; goes back to the pool when it is let go.
using Buffer = std::unique_ptr<uint8_t[], GiveBack>;

/// One thread's compressor, made at its first use.
class Packer {
  public:
    Packer(const sqfs_compressor_t& prototype, uint32_t block_size) : prototype_(prototype), block_size_(block_size) {}
    /// Packs the `size` bytes at `bytes` in place. Returns the new size; 0 when they do not get smaller, and are as
    /// they were. Throws Error.
    uint32_t pack(uint8_t* bytes, uint32_t size);

  private:
    const sqfs_compressor_t& prototype_;
    uint32_t block_size_;
    SqfsPtr<sqfs_compressor_t> compressor_;
    std::unique_ptr<uint8_t[]> scratch_;
};

/// Any thread may call anything. Threads are started when there is work for them, buffers made when they are asked for.
class CompressorPool {
  public:
    /// Throws Error when the codec is not there.
    CompressorPool(const Compression& compression, const PoolLimits& limits);
    /// To be destroyed after all that uses it.
    ~CompressorPool();
    CompressorPool(const CompressorPool&) = delete;
    CompressorPool& operator=(const CompressorPool&) = delete;

    /// A buffer, waited for while all are in use.
    Buffer take();

    /// Runs `job` in a thread of the pool; jobs start in the order of their submission. It must not throw, nor wait for
    /// another job. Throws std::system_error when not even one thread can be started.
    void submit(std::function<void(Packer&)> job);

    const Compression& compression() const { return compression_; }
    uint32_t block_size() const { return limits_.block_size; }

  private:
    friend GiveBack;
    void give(uint8_t* bytes);
    void work();
    void start_thread();

    const Compression compression_;
    const PoolLimits limits_;
    SqfsPtr<sqfs_compressor_t> prototype_;
    std::mutex mutex_;
    std::condition_variable job_, buffer_;
    std::deque<std::function<void(Packer&)>> jobs_;
    std::vector<std::unique_ptr<uint8_t[]>> buffers_;  ///< all of them
    std::vector<uint8_t*> free_;
    unsigned idle_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace berth::squash
