// What the debug log has of the file server: requests that take over a second, while they do and when they are
// answered.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace berth::mount {

/// Looks after requests in progress. Thread-safe.
class SlowRequests {
  public:
    using Clock = std::chrono::steady_clock;
    struct Request {
        uint32_t operation;  ///< FUSE_READ and the like
        uint64_t inode;
        uint64_t offset;  ///< of a FUSE_READ; else 0
        Clock::time_point since = Clock::now();
        bool told = false;
    };

    /// Gives `tell` a line, in a thread of its own or in that of the request, for each request that takes longer than
    /// `limit`: once while it waits, and once when it is answered. `path_of` says what an inode is called.
    SlowRequests(std::function<std::string(uint64_t inode)> path_of, std::function<void(const std::string&)> tell,
                 std::chrono::milliseconds limit = std::chrono::seconds(1));
    ~SlowRequests();
    SlowRequests(const SlowRequests&) = delete;
    SlowRequests& operator=(const SlowRequests&) = delete;

    using Place = std::list<Request>::iterator;
    /// `request` is what has been read of /dev/fuse, of `size` bytes.
    Place begins(const void* request, size_t size);
    void ends(Place place);

  private:
    void run();
    void tell(const Request& request, const char* what) const;

    const std::function<std::string(uint64_t)> path_of_;
    const std::function<void(const std::string&)> tell_;
    const std::chrono::milliseconds limit_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::list<Request> requests_;  ///< in the order of their beginnings
    bool stopped_ = false;
    std::thread thread_;  ///< last: it uses all the others
};

/// "READ" for FUSE_READ; the number for one that a read-only file system has no use for.
std::string operation_name(uint32_t operation);

}  // namespace berth::mount
