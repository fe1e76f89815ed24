#include "runtime/base/pid.hh"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

using berth::Pid;
using namespace std::chrono_literals;

namespace {

/// Ends at once with `code`; never for a code below 0.
pid_t child_with(int code) {
    pid_t child = berth::fixtures::forked();
    if (child != 0) return child;
    while (code < 0) ::pause();
    ::_exit(code);
}

/// Nobody has waited for it yet.
bool is_child(pid_t pid) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

TEST_CASE("a child is waited for by its owner's end, and once", "[base]") {
    pid_t number = child_with(0);
    { Pid child(number); }
    CHECK_FALSE(is_child(number));

    Pid first(child_with(3));
    Pid second(std::move(first));
    CHECK_FALSE(first);
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 3);
    CHECK(second.wait() == 0);
}

TEST_CASE("a child that does not end by itself is killed when its owner ends or takes another one", "[base]") {
    pid_t first = child_with(-1), second = child_with(-1);
    ::alarm(20);  // for a wait without a kill
    {
        Pid child(first);
        child = Pid(second);
        CHECK_FALSE(is_child(first));
        CHECK(child.get() == second);
    }
    ::alarm(0);
    CHECK_FALSE(is_child(second));
}

TEST_CASE("a child that was given up is nobody's", "[base]") {
    pid_t number = child_with(-1);
    {
        Pid child(number);
        CHECK_FALSE(child.ends_within(0ms));
        CHECK(child.release() == number);
        CHECK(child.ends_within(0ms));
    }
    CHECK(Pid(number).get() == number);
    CHECK_FALSE(is_child(number));
}

TEST_CASE("a child that is killed has 128 and the signal for a code", "[base]") {
    Pid child(child_with(-1));
    CHECK_FALSE(child.ends_within(0ms));
    child.send(SIGKILL);
    CHECK(child.wait() == 128 + SIGKILL);
    child.send(SIGKILL);
    CHECK(child.ends_within(0ms));
    Pid other(child_with(0));
    CHECK(other.ends_within(20s));
    CHECK_FALSE(other);
}

TEST_CASE("a child whose end no signal tells is waited for as well", "[base]") {
    auto number = static_cast<pid_t>(::syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
    if (number == 0) ::_exit(7);
    REQUIRE(number > 0);
    CHECK(Pid(number).wait() == 7);
}

TEST_CASE("a number that is no child's any more gets no signal", "[base]") {
    // As if the child had been waited for with all others, and the number were another process's now.
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_t parent = berth::fixtures::forked();
    if (parent == 0) {
        pid_t other = child_with(-1);
        [[maybe_unused]] ssize_t told = ::write(ends[1], &other, sizeof other);
        ::pause();
        ::_exit(0);
    }
    pid_t other = -1;
    REQUIRE(::read(ends[0], &other, sizeof other) == static_cast<ssize_t>(sizeof other));
    int handle = static_cast<int>(::syscall(SYS_pidfd_open, other, 0));
    REQUIRE(handle >= 0);
    { Pid mistaken(other); }
    pollfd end{handle, POLLIN, 0};
    CHECK(::poll(&end, 1, 200) == 0);
    ::close(handle);
    berth::fixtures::kill_one(other, SIGKILL);
    berth::fixtures::kill_one(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    ::close(ends[0]);
    ::close(ends[1]);
}
