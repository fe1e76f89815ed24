// Puts the start of a file of the image into the kernel's page cache before anybody asks for it: the container's first
// program, while its container is made.
#pragma once
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>

struct fuse_session;

namespace berth::mount {

struct Served;

/// Shared by who starts a server and the server. In place of a request for each 128 KiB, with a change of threads each
/// way, the server sends the data on its own, whenever no request waits, from the moment on at which the file was
/// looked up.
///
/// Nobody may read the file before wait() has returned: who stores a page waits for its lock, which a reader holds
/// until the server answers, and the two would wait for each other, beyond the reach of any signal. So nothing is
/// stored unless somebody promises to wait.
class Preload {
  public:
    /// `inode` of the image.
    explicit Preload(uint32_t inode) : inode_(inode) {}

    /// For who has looked the file up, or failed to; the server waits for this. `found`: the kernel knows the inode by
    /// now, and the caller will wait() before anybody reads. The kernel may have asked for the file on the way to a
    /// failure, as for "program/".
    void begin(bool found) {
        wanted_ = found;
        begun_ = true;
        begun_.notify_one();
    }

    /// After begin(true), once: returns when all that is wanted of it is in the page cache, or cannot be.
    void wait() { done_.get_future().wait(); }

    /// For the server's thread that answers a lookup of this inode; once.
    bool is_for(uint32_t inode) { return inode == inode_ && !due_.exchange(true); }

    /// For that thread: stores the next piece; false when that was the last one.
    bool store_piece(fuse_session* session, Served& served) noexcept;

  private:
    bool store_next(fuse_session* session, Served& served);

    const uint32_t inode_;
    std::atomic<bool> due_ = false, begun_ = false;
    bool wanted_ = false;  ///< before begun_
    uint64_t at_ = 0;
    std::unique_ptr<char[]> buffer_;
    std::promise<void> done_;
};

}  // namespace berth::mount
