#include "runtime/mount/fuse/busy_poll.hh"

#include "tests/catch.hh"

using berth::mount::BusyPoll;
using namespace std::chrono_literals;

namespace {

constexpr auto limit = 100us;

/// Waits of `time` until one is to be watched, at most `most`; returns how many.
int until_watching(BusyPoll& poll, std::chrono::nanoseconds time, int most = 100'000) {
    int count = 0;
    for (; count < most && !poll.worthwhile(); ++count) poll.waited(time, false);
    return count;
}

/// Of `count` waits of `time`, those that are watched.
int watched(BusyPoll& poll, std::chrono::nanoseconds time, int count) {
    int out = 0;
    for (int i = 0; i < count; ++i) {
        bool watches = poll.worthwhile();
        out += watches;
        poll.waited(time, watches);
    }
    return out;
}

}  // namespace

TEST_CASE("requests close after one another are watched for", "[mount]") {
    BusyPoll poll(limit);
    CHECK_FALSE(poll.worthwhile());
    CHECK(until_watching(poll, 60us) == BusyPoll::first_needed);
    CHECK(watched(poll, 30us, 1000) == 1000);
}

TEST_CASE("requests far from one another are not", "[mount]") {
    BusyPoll poll(limit);
    CHECK(watched(poll, 1ms, 100'000) == 0);
    // Nor where half of them are.
    for (int i = 0; i < 1000; ++i) {
        poll.waited(30us, false);
        poll.waited(1ms, false);
        CHECK_FALSE(poll.worthwhile());
    }
}

TEST_CASE("a late request now and then does not end the watching", "[mount]") {
    BusyPoll poll(limit);
    until_watching(poll, 60us);
    int slept = 0;
    for (int i = 0; i < 10'000; ++i) {
        slept += !poll.worthwhile();
        poll.waited(i % 10 == 9 ? 1ms : 30us, poll.worthwhile());
    }
    CHECK(slept == 0);
}

TEST_CASE("who always comes a little late is watched for ever more seldom", "[mount]") {
    BusyPoll poll(limit);
    // Short to one who sleeps, too long to one who watches.
    int seen = watched(poll, 150us, 100'000);
    CHECK(seen > 0);
    CHECK(seen < 100);
    CHECK(watched(poll, 150us, 100'000) < 100'000 / 1000);
    // A quick program after it is found out again, and then known.
    CHECK(until_watching(poll, 60us) <= static_cast<int>(BusyPoll::last_needed));
    watched(poll, 30us, 100);
    CHECK(watched(poll, 1ms, 100) < 10);
    CHECK(until_watching(poll, 60us) <= 2 * static_cast<int>(BusyPoll::first_needed));
}

TEST_CASE("where others want the CPU nothing is watched for long", "[mount]") {
    BusyPoll poll(limit);
    until_watching(poll, 60us);
    poll.was_interrupted();
    CHECK_FALSE(poll.worthwhile());
    CHECK(until_watching(poll, 60us) == BusyPoll::needed_among_others);
}

TEST_CASE("a limit of 0 never watches", "[mount]") {
    BusyPoll poll(0us);
    CHECK(watched(poll, 0us, 100'000) == 0);
}
