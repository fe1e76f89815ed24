// Acting in slurmstepd's own process from others of the same memory.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "runtime/base/error.hh"
#include "spank/own_process.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

// The sanitizers think that a process has one stack for each of its threads.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

using namespace berth;
using namespace berth::spank;
using Catch::Contains;

namespace {

/// Calls `body` as Slurm calls a plugin with contain_spank: in a child with this memory and a copy of the descriptors.
/// True when that ended by itself.
bool in_contained(const std::function<void()>& body) {
    constexpr size_t size = 256 << 10;
    std::vector<char> stack(size);
    pid_t child = clone(
        [](void* of) -> int {
            (*static_cast<const std::function<void()>*>(of))();
            _exit(0);
        },
        stack.data() + size, CLONE_VM | SIGCHLD, const_cast<std::function<void()>*>(&body));
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
}

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

}  // namespace

TEST_CASE("own process: what a contained callback asks for is done here, and its descriptors come here", "[spank]") {
    OwnProcess own;
    own.begin();
    own.serve();
    pid_t acted = -1;
    Fd got;
    std::string said;
    bool foreign = true, ended = in_contained([&] {
        foreign = !own.here();
        own.run([&] { acted = getpid(); });
        std::vector<Fd> mine;
        mine.emplace_back(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
        own.hand_over(std::move(mine), [&](std::vector<Fd> taken) { got = std::move(taken.at(0)); });
        try {
            own.run([] { throw Error("no", 7); });
        } catch (const Error& error) {
            said = error.what() + std::to_string(error.exit_code());
        }
    });
    own.stop();
    CHECK(ended);
    CHECK(foreign);
    CHECK(acted == getpid());
    CHECK(said == "no7");
    CHECK(got);
    CHECK(is_open(got.get()));
}

TEST_CASE("own process: a callback that is killed while it waits harms none that come after", "[spank]") {
    OwnProcess own;
    own.begin();
    own.serve();
    int done = 0;
    for (int i = 0; i < 50; ++i)
        CHECK_FALSE(in_contained([&] {
            own.run([&done, pid = getpid()] {
                fixtures::kill_one(pid, SIGKILL);
                ++done;
            });
            for (;;) pause();
        }));
    CHECK(in_contained([&] { own.run([&done] { ++done; }); }));
    own.stop();
    CHECK(done == 51);
}

TEST_CASE("own process: where nobody serves, an error names the parameter", "[spank]") {
    OwnProcess own;
    own.begin();
    std::string said;
    CHECK(in_contained([&] {
        try {
            own.run([] {});
        } catch (const Error& error) {
            said = error.what();
        }
    }));
    CHECK_THAT(said, Contains("contain_spank of SlurmdParameters"));
    int here = 0;
    own.run([&] { ++here; });
    CHECK(here == 1);
}

#endif
