#include <functional>

#include "runtime/mount/fuse/watchdog.hh"
#include "tests/catch.hh"
#include "tests/fixtures/slowness.hh"

using namespace std::chrono_literals;
using berth::fixtures::comes_true;
using berth::mount::Watchdog;

namespace {

/// A watchdog that looks every millisecond, over a server that is what the test says.
struct Server {
    std::atomic<bool> waits = false;
    std::atomic<int> calls = 0, looks = 0, idle = 0;
    Watchdog watch{[this] {
                         ++looks;
                         return waits.load();
                     },
                     [this] { ++calls; }, [this] { ++idle; }, 1ms};

    void serve(uint64_t count) {
        for (uint64_t i = 0; i < count; ++i) {
            watch.begins();
            watch.ends();
        }
    }
};

}  // namespace

TEST_CASE("a thread is called when a request is stuck and another waits", "[mount]") {
    Server server;
    server.watch.begins();
    CHECK(server.watch.any_in_progress());
    CHECK(comes_true([&] { return server.looks > 2; }));
    CHECK(server.calls == 0);
    server.waits = true;
    // Again and again, as those who are called can get stuck too.
    CHECK(comes_true([&] { return server.calls > 3; }));
    server.watch.ends();
    CHECK_FALSE(server.watch.any_in_progress());
}

TEST_CASE("a watchdog that sleeps wakes for the next request", "[mount]") {
    Server server;
    for (int turn = 0; turn < 5; ++turn) {
        // Longer than it takes to fall asleep.
        std::this_thread::sleep_for(2ms * Watchdog::quiet);
        server.calls = 0;
        server.waits = true;
        server.watch.begins();
        CHECK(comes_true([&] { return server.calls > 0; }));
        server.waits = false;
        server.watch.ends();
    }
}

TEST_CASE("idle is told once after each time of requests", "[mount]") {
    Server server;
    for (int turn = 1; turn < 4; ++turn) {
        server.serve(3);
        CHECK(comes_true([&] { return server.idle == turn; }));
        std::this_thread::sleep_for(2ms * (Watchdog::quiet + Watchdog::rest));
        CHECK(server.idle == turn);
    }
}

TEST_CASE("nobody is called after the end", "[mount]") {
    Server server;
    server.waits = true;
    server.watch.stop();
    server.watch.begins();
    server.serve(10);
    std::this_thread::sleep_for(20ms);
    CHECK(server.looks == 0);
    CHECK(server.calls == 0);
}
