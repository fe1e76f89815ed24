#include "runtime/mount/fuse/slow_requests.hh"

#include <linux/fuse.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/base/text.hh"

namespace berth::mount {

std::string operation_name(uint32_t operation) {
    switch (operation) {
        case FUSE_LOOKUP:
            return "LOOKUP";
        case FUSE_GETATTR:
            return "GETATTR";
        case FUSE_READLINK:
            return "READLINK";
        case FUSE_OPEN:
            return "OPEN";
        case FUSE_READ:
            return "READ";
        case FUSE_GETXATTR:
            return "GETXATTR";
        case FUSE_LISTXATTR:
            return "LISTXATTR";
        case FUSE_OPENDIR:
            return "OPENDIR";
        case FUSE_READDIR:
            return "READDIR";
        case FUSE_READDIRPLUS:
            return "READDIRPLUS";
        default:
            return cat("operation ", operation);
    }
}

SlowRequests::SlowRequests(std::function<std::string(uint64_t)> path_of, std::function<void(const std::string&)> tell,
                           std::chrono::milliseconds limit)
    : path_of_(std::move(path_of)), tell_(std::move(tell)), limit_(limit), thread_([this] { run(); }) {}

SlowRequests::~SlowRequests() {
    {
        std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

SlowRequests::Place SlowRequests::begins(const void* request, size_t size) {
    fuse_in_header header{};
    fuse_read_in read{};
    std::memcpy(&header, request, std::min(size, sizeof header));
    if (header.opcode == FUSE_READ && size >= sizeof header + sizeof read)
        std::memcpy(&read, static_cast<const char*>(request) + sizeof header, sizeof read);
    std::lock_guard lock(mutex_);
    requests_.push_back({.operation = header.opcode, .inode = header.nodeid, .offset = read.offset});
    return std::prev(requests_.end());
}

void SlowRequests::ends(Place place) {
    std::unique_lock lock(mutex_);
    Request request = *place;
    requests_.erase(place);
    lock.unlock();
    if (Clock::now() - request.since > limit_) tell(request, "was answered after ");
}

void SlowRequests::run() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
        changed_.wait_for(lock, limit_ / 4);
        std::vector<Request> slow;
        for (auto now = Clock::now(); Request & request : requests_) {
            if (now - request.since < limit_) break;
            if (!std::exchange(request.told, true)) slow.push_back(request);
        }
        // To find its name may wait as well.
        lock.unlock();
        for (const Request& request : slow) tell(request, "has been waiting for ");
        lock.lock();
    }
}

void SlowRequests::tell(const Request& request, const char* what) const {
    auto time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - request.since).count();
    std::string name = path_of_(request.inode);
    tell_(cat(operation_name(request.operation), " of ", name.empty() ? cat("inode ", request.inode) : name,
              request.operation == FUSE_READ ? cat(" at byte ", request.offset) : "", ' ', what, time, " ms"));
}

}  // namespace berth::mount
