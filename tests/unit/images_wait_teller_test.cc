// What a person is told of reads that wait for bytes which have still to come.
#include <sys/mman.h>

#include <atomic>
#include <mutex>

#include "runtime/base/fd.hh"
#include "runtime/images/wait_teller.hh"
#include "tests/catch.hh"

using namespace berth;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("waits: a line after 5 s, then after twice as long each time, and ten at most", "[early]") {
    WaitLines lines(seconds(600));
    CHECK_FALSE(lines.due(milliseconds(0), 0, 10));
    CHECK_FALSE(lines.due(milliseconds(4999), 0, 10));
    CHECK(lines.due(milliseconds(5000), 3, 10).value() ==
          "a read of the image has waited 5 s for bytes that have still to come; 3 of 10 MiB are here; it fails when "
          "nothing has come for 600 s (limits.stall_time)");
    CHECK_FALSE(lines.due(milliseconds(9000), 3, 10));
    CHECK(lines.due(milliseconds(11000), 4, 10).value().find(" 11 s ") != std::string::npos);
    CHECK_FALSE(lines.due(milliseconds(19999), 4, 10));
    int told = 2;
    for (int i = 0; i < 100; ++i) told += lines.due(seconds(1'000'000), 4, 10).has_value();
    CHECK(told == 10);
}

TEST_CASE("waits: how long the chunk that is waited for longest has been", "[early]") {
    Fd file(::memfd_create("pieces", MFD_CLOEXEC));
    auto map = ChunkMap::create(file.get(), 2, Digest("sha256:" + std::string(64, 'a')));
    OldestWait oldest;
    auto now = OldestWait::Clock::now();
    CHECK(oldest.of(*map, now) == milliseconds(0));
    map->ask({0, 1});
    CHECK(oldest.of(*map, now) == milliseconds(0));
    map->ask({1, 1});
    CHECK(oldest.of(*map, now + milliseconds(30)) == milliseconds(30));
    map->set_here(0);
    CHECK(oldest.of(*map, now + milliseconds(50)) == milliseconds(20));
    map->set_here(1);
    CHECK(oldest.of(*map, now + milliseconds(60)) == milliseconds(0));
    // What is here is no wait.
    CHECK(map->wait({0, 2}) == 0);
}

TEST_CASE("waits: the thread that tells ends with its object, and when all is here", "[early]") {
    Fd file(::memfd_create("pieces", MFD_CLOEXEC));
    auto map = ChunkMap::create(file.get(), 1, Digest("sha256:" + std::string(64, 'a')));
    std::atomic<int> told = 0;
    { WaitTeller teller(map, seconds(1), [&](const std::string&) { ++told; }); }
    map->set_here(0);
    { WaitTeller teller(map, seconds(1), [&](const std::string&) { ++told; }); }
    CHECK(told == 0);
}
