// Reads of bytes that have still to come: threads of their own wait for them, so that the server's go on with what is
// here.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

struct fuse_req;
struct fuse_session;

namespace berth::mount {

struct Served;

/// A request of the kernel's for bytes of a file.
struct ReadRequest {
    fuse_req* request;
    uint32_t number;  ///< of the file's inode
    uint64_t offset;
    size_t size;
    int channel = -1;  ///< over which it came
};

/// Replies with the bytes, or with the error that there was, once they are here; see DataReader::read(). Throws Error
/// before it has replied.
void reply_with_bytes(Served& at, const ReadRequest& read, const std::function<bool()>& interrupted);

class LateReads {
  public:
    /// To be destroyed before the session.
    LateReads(fuse_session* session, Served& served) : session_(session), served_(served) {}
    /// Ends the waits; who asked has EINTR.
    ~LateReads();
    LateReads(const LateReads&) = delete;
    LateReads& operator=(const LateReads&) = delete;

    /// Replies later, from another thread.
    void add(const ReadRequest& read);

  private:
    /// More than the kernel has in flight of what it reads ahead; of those that wait beyond, the first come first.
    static constexpr size_t thread_limit = 96;
    void work();
    bool next(ReadRequest& out);

    fuse_session* session_;
    Served& served_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<ReadRequest> waiting_;
    size_t idle_ = 0;
    std::atomic<bool> ended_ = false;
    std::vector<std::jthread> threads_;  ///< joined first of all
};

}  // namespace berth::mount
