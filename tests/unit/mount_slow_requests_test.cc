// What the debug log has of requests to the file server that take long.
#include <linux/fuse.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/mount/fuse/slow_requests.hh"
#include "tests/catch.hh"

using namespace berth::mount;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

struct ReadRequest {
    fuse_in_header header{};
    fuse_read_in read{};
};

ReadRequest read_of(uint64_t inode, uint64_t offset) {
    ReadRequest out;
    out.header.opcode = FUSE_READ;
    out.header.nodeid = inode;
    out.read.offset = offset;
    return out;
}

/// The lines, for which it can be waited.
class Lines {
  public:
    void add(const std::string& line) {
        std::lock_guard lock(mutex_);
        lines_.push_back(line);
        changed_.notify_all();
    }
    std::string wait_for(size_t number) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return lines_.size() > number; });
        return lines_[number];
    }
    size_t count() {
        std::lock_guard lock(mutex_);
        return lines_.size();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> lines_;
};

std::string name_of(uint64_t inode) {
    return inode == 7 ? "/usr/lib/libc.so.6" : "";
}

}  // namespace

TEST_CASE("a request that takes long is told of while it waits, and once more when it is answered", "[mount]") {
    Lines lines;
    SlowRequests slow(
        name_of, [&](const std::string& line) { lines.add(line); }, std::chrono::milliseconds(1));
    ReadRequest known = read_of(7, 4096), other = read_of(8, 0);
    auto first = slow.begins(&known, sizeof known);
    CHECK_THAT(lines.wait_for(0),
               StartsWith("READ of /usr/lib/libc.so.6 at byte 4096 has been waiting for ") && EndsWith(" ms"));
    auto second = slow.begins(&other, sizeof other);
    CHECK_THAT(lines.wait_for(1), StartsWith("READ of inode 8 at byte 0 has been waiting for "));
    slow.ends(first);
    slow.ends(second);
    CHECK_THAT(lines.wait_for(2), StartsWith("READ of /usr/lib/libc.so.6 at byte 4096 was answered after "));
    CHECK(lines.count() == 4);
}

TEST_CASE("a request that is answered in time is not told of", "[mount]") {
    Lines lines;
    {
        SlowRequests slow(
            name_of, [&](const std::string& line) { lines.add(line); }, std::chrono::hours(1));
        fuse_in_header header{};
        header.opcode = FUSE_GETATTR;
        slow.ends(slow.begins(&header, sizeof header));
        // Of a request that is cut short nothing is read that is not there.
        slow.ends(slow.begins(&header, 4));
    }
    CHECK(lines.count() == 0);
}

TEST_CASE("operations have the names of linux/fuse.h", "[mount]") {
    CHECK(operation_name(FUSE_LOOKUP) == "LOOKUP");
    CHECK(operation_name(FUSE_READDIRPLUS) == "READDIRPLUS");
    CHECK(operation_name(FUSE_WRITE) == "operation 16");
}
