// When tasks that are to end have had their time.
#include <signal.h>
#include <unistd.h>

#include "spank/overdue.hh"
#include "tests/catch.hh"

using namespace berth::spank;
using std::chrono::seconds;

TEST_CASE("overdue: what was sent to a process is read from its status", "[spank]") {
    auto status = [](std::string_view own, std::string_view shared) {
        return std::string("Name:\tSigPnd: x\nState:\tD (disk sleep)\nSigPnd:\t") + std::string(own) + "\nShdPnd:\t" +
               std::string(shared) + "\nSigBlk:\t0000000000000100\n";
    };
    CHECK(fate_of(status("0000000000000000", "0000000000000000")) == Fate::lives);
    CHECK(fate_of(status("0000000000000100", "0000000000000100")) == Fate::killed);
    // SIGTERM has ended it, which it did not notice yet; SIGKILL is not recorded any more.
    CHECK(fate_of(status("0000000000000100", "0000000000004000")) == Fate::ends);
    // SIGTERM waits for a handler.
    CHECK(fate_of(status("0000000000000000", "0000000000004000")) == Fate::lives);
    CHECK(fate_of(status("", "100")) == Fate::killed);
    CHECK(fate_of("") == Fate::lives);
    CHECK(fate_of(getpid()) == Fate::lives);
}

TEST_CASE("overdue: five seconds after SIGKILL, and only when it was sent to all", "[spank]") {
    Overdue overdue(seconds(30));
    auto start = Overdue::Clock::now();
    auto at = [&](int second, std::map<pid_t, Fate> tasks) { return overdue.judge(tasks, start + seconds(second)); };
    CHECK_FALSE(at(0, {{1, Fate::killed}, {2, Fate::lives}}));
    CHECK_FALSE(at(10, {{1, Fate::killed}, {2, Fate::lives}}));
    CHECK_FALSE(at(11, {{1, Fate::killed}, {2, Fate::killed}}));
    CHECK_FALSE(at(15, {{1, Fate::killed}, {2, Fate::killed}}));
    CHECK(at(16, {{1, Fate::killed}, {2, Fate::killed}}));
    CHECK(at(18, {{1, Fate::killed}}));
    CHECK_FALSE(at(19, {}));
}

TEST_CASE("overdue: what SIGTERM has ended has KillWait on top, unless SIGKILL is seen", "[spank]") {
    Overdue overdue(seconds(30));
    auto start = Overdue::Clock::now();
    auto at = [&](int second, Fate fate) { return overdue.judge({{1, fate}}, start + seconds(second)); };
    CHECK_FALSE(at(0, Fate::ends));
    CHECK_FALSE(at(34, Fate::ends));
    CHECK(at(35, Fate::ends));
    // A program that is executed ends the threads of the one before it.
    CHECK_FALSE(at(36, Fate::lives));
    CHECK_FALSE(at(37, Fate::ends));
    CHECK_FALSE(at(40, Fate::killed));
    CHECK(at(45, Fate::killed));
}
