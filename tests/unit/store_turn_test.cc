// Turns at pulling, on one host and between hosts. A host that does not know the locks of another one is made by taking
// away the name of the file that is locked.
#include "runtime/store/turn.hh"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/base/text.hh"
#include "runtime/store/collect.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace std::chrono_literals;
using store::TurnState;

namespace {

const Digest key("sha256:" + std::string(64, 'c'));

struct Scene {
    store::Store store() const { return store::Store::open(folder / "store"); }
    std::string locks() const { return folder / "store/locks"; }
    std::string lock_file() const { return locks() + "/" + key.hex(); }
    std::string turn_file() const { return lock_file() + ".turn"; }
    fixtures::TempFolder folder;
};

/// One that is lost soon, and one that is not on the slowest machine.
constexpr store::TurnTimes quick{50ms, 300ms, 20ms, 20ms};
constexpr store::TurnTimes lasting{50ms, 1h, 20ms, 20ms};

std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Takes the turn in a child, which is killed with it.
void leave_turn(const Scene& scene) {
    pid_t child = fixtures::forked();
    if (child == 0) {
        store::Store store = scene.store();
        store::TurnQueue queue(store, key, true, quick);
        store::Turn turn = queue.try_take();
        if (turn) ::raise(SIGKILL);
        ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(fs::exists(scene.turn_file()));
}

}  // namespace

TEST_CASE("turns: a file that is written is held, and one that is not is lost by the server's time", "[store][turn]") {
    store::TurnTimes times{10s, 60s, 1s, 1s};
    CHECK(store::state_of_turn(0s, {}, times) == TurnState::held);
    CHECK(store::state_of_turn(19s, 1h, times) == TurnState::held);
    CHECK(store::state_of_turn(20s, {}, times) == TurnState::unclear);
    CHECK(store::state_of_turn(20s, 60s, times) == TurnState::held);
    CHECK(store::state_of_turn(20s, 61s, times) == TurnState::lost);
    // A server whose time was set back.
    CHECK(store::state_of_turn(1h, -5s, times) == TurnState::held);
}

TEST_CASE("turns: on one host one has it, and nothing is written beside the lock", "[store][turn]") {
    Scene scene;
    store::Store store = scene.store();
    store::TurnQueue first(store, key), second(store, key);
    {
        store::Turn turn = first.try_take();
        CHECK(turn);
        CHECK_FALSE(second.try_take());
        CHECK(second.holder().starts_with(cat("process ", ::getpid(), " on ")));
        CHECK_FALSE(fs::exists(scene.turn_file()));
    }
    CHECK(second.try_take());
}

TEST_CASE("turns: a host that does not see the lock sees the file, which is written again and goes", "[store][turn]") {
    Scene scene;
    store::Store here = scene.store(), there = scene.store();
    store::TurnQueue first(here, key, true, lasting), second(there, key, true, lasting);
    {
        store::Turn turn = first.try_take();
        REQUIRE(turn);
        auto written = fs::last_write_time(scene.turn_file());
        fs::remove(scene.lock_file());
        CHECK_FALSE(second.try_take());
        fs::remove(scene.lock_file());
        CHECK(second.holder().starts_with(cat("process ", ::getpid(), " on ")));
        while (fs::last_write_time(scene.turn_file()) == written) std::this_thread::sleep_for(1ms);
        CHECK_FALSE(second.try_take());
    }
    CHECK_FALSE(fs::exists(scene.turn_file()));
    CHECK(second.take());
}

TEST_CASE("turns: what a killed process held is taken by one of those who wait, and by all in the end",
          "[store][turn]") {
    Scene scene;
    leave_turn(scene);
    std::string left = content_of(scene.turn_file());
    std::vector<std::thread> hosts;
    std::atomic<int> taken = 0;
    for (int i = 0; i < 4; ++i)
        hosts.emplace_back([&] {
            store::Store store = scene.store();
            store::TurnQueue queue(store, key, true, quick);
            store::Turn turn = queue.take();
            taken += content_of(scene.turn_file()) != left ? 1 : 0;
        });
    for (std::thread& host : hosts) host.join();
    CHECK(taken == 4);
    CHECK_FALSE(fs::exists(scene.turn_file()));
    // Nothing but the file of the lock.
    CHECK(std::distance(fs::directory_iterator(scene.locks()), {}) == 1);
}

TEST_CASE("turns: whoever was thought dead leaves the file of the next one", "[store][turn]") {
    Scene scene;
    store::Store store = scene.store();
    std::string next = "host2.7.00";
    {
        store::TurnQueue queue(store, key, true, store::TurnTimes{1h, 1h, 20ms, 20ms});
        store::Turn turn = queue.try_take();
        REQUIRE(turn);
        fs::remove(scene.turn_file());
        std::ofstream(scene.turn_file()) << next;
        CHECK(queue.holder() == "process 7 on host2");
    }
    CHECK(content_of(scene.turn_file()) == next);
}

TEST_CASE("turns: where nothing can be written everybody has it, and nobody is held up later", "[store][turn]") {
    Scene scene;
    pid_t child = fixtures::forked();
    if (child == 0) {
        store::Store store = scene.store();
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit nothing{0, 0};
        ::setrlimit(RLIMIT_FSIZE, &nothing);
        store::TurnQueue queue(store, key, true, lasting);
        ::_exit(queue.try_take() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK_FALSE(fs::exists(scene.turn_file()));
}

TEST_CASE("turns: what killed processes left is removed after a day", "[store][turn]") {
    Scene scene;
    leave_turn(scene);
    store::Store store = scene.store();
    std::ofstream(scene.locks() + "/.host.1.00") << "x";
    store::collect(store, {}, false, true);
    CHECK(fs::exists(scene.turn_file()));
    for (const auto& entry : fs::directory_iterator(scene.locks()))
        fs::last_write_time(entry, fs::file_time_type::clock::now() - 25h);
    store::collect(store, {}, false, true);
    CHECK_FALSE(fs::exists(scene.turn_file()));
    CHECK_FALSE(fs::exists(scene.locks() + "/.host.1.00"));
    CHECK_FALSE(fs::exists(scene.lock_file()));
}
