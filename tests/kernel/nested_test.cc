// Processes in user namespaces that were made inside of a container: they are the container's, and end with it.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "spank/inhabitants.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::spank;

namespace {

/// The test user's processes in a user namespace as a container's, and in those made in it, one below the other; each
/// is the parent of the next one. They end with the object.
class Nested {
  public:
    explicit Nested(size_t levels) {
        auto [ready, its] = sys::make_pipe();
        pid_t first = fixtures::forked();
        if (first == 0) live(its.get(), levels);
        its.reset();
        for (pid_t pid = 0; pids.size() < levels && ::read(ready.get(), &pid, sizeof pid) == sizeof pid;) {
            pids.push_back(pid);
            processes.push_back(sys::pidfd_open(pid));
        }
        complete = pids.size() == levels;
    }
    Nested(const Nested&) = delete;
    ~Nested() {
        for (pid_t pid : pids) fixtures::kill_one(pid, SIGKILL);
        for (pid_t pid : pids) ::waitpid(pid, nullptr, 0);
    }

    bool lives(size_t level) const {
        pollfd entry{processes[level].get(), POLLIN, 0};
        return ::poll(&entry, 1, 0) == 0;
    }
    bool ends(size_t level) const {
        return fixtures::comes_true([&] { return !lives(level); }, std::chrono::seconds(10));
    }

    std::vector<pid_t> pids;
    std::vector<Fd> processes;
    bool complete = false;

  private:
    [[noreturn]] static void live(int ready, size_t levels) {
        if (::setresgid(2001, 2001, 2001) != 0 || ::setresuid(2001, 2001, 2001) != 0) ::_exit(1);
        // A change of ids closes a process to itself.
        ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        for (size_t level = 0; level < levels; ++level) {
            if (level > 0 && (fixtures::forked() != 0 || ::setsid() < 0)) break;
            try {
                sandbox::enter_user_namespace({2001, 2001, 2001, 2001});
            } catch (const Error&) {
                ::_exit(1);
            }
            pid_t own = ::getpid();
            if (::write(ready, &own, sizeof own) != sizeof own) ::_exit(1);
        }
        ::close(ready);
        for (;;) ::pause();
    }
};

}  // namespace

TEST_CASE("nested: what lives in user namespaces made inside of a container ends with it", "[kernel][root][spank]") {
    NEED_ROOT();
    Nested container(3), other(2);
    REQUIRE(container.complete);
    REQUIRE(other.complete);
    auto own = user_namespace_of(container.pids[0]);
    REQUIRE(own);
    kill_inhabitants(*own);
    for (size_t level : {0, 1, 2}) CHECK(container.ends(level));
    for (size_t level : {0, 1}) CHECK(other.lives(level));
}

TEST_CASE("nested: the container of a process is found from any namespace made in it", "[kernel][root][spank]") {
    NEED_ROOT();
    Nested container(3), other(1);
    REQUIRE(container.complete);
    REQUIRE(other.complete);
    auto own = user_namespace_of(container.pids[0]);
    for (pid_t pid : container.pids) CHECK(container_of(pid) == own);
    CHECK(container_of(other.pids[0]) != own);
    CHECK(user_namespace_of(container.pids[2]) != own);
    CHECK_FALSE(container_of(getpid()));
    CHECK_FALSE(container_of(1));
}

TEST_CASE("nested: the server of a task's container is found though the task has gone on to another namespace",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Nested container(2);
    REQUIRE(container.complete);
    // All of these execute this program, and only the container's own namespace has servers.
    kill_server_of(container.pids[1], "/proc/self/exe");
    CHECK(container.ends(0));
    CHECK(container.lives(1));
}
