#include "runtime/oci/registry/retry.hh"

#include <string>

#include "runtime/oci/registry/http.hh"
#include "tests/catch.hh"

using namespace berth::oci;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("the wait before a retry doubles, is spread, and ends", "[image][retry]") {
    RetryRules rules;
    struct Row {
        unsigned retry;
        milliseconds waited;
        double jitter;
        std::optional<seconds> told;
        std::optional<milliseconds> wanted;
    };
    const std::optional<milliseconds> give_up;
    for (const Row& row : {
             Row{0, milliseconds(0), 0, {}, milliseconds(250)},
             Row{0, milliseconds(0), 0.5, {}, milliseconds(375)},
             Row{1, milliseconds(0), 0, {}, milliseconds(500)},
             Row{4, milliseconds(0), 0, {}, milliseconds(4000)},
             Row{5, milliseconds(0), 0, {}, give_up},
             Row{4000000000U, milliseconds(0), 0, {}, give_up},
             Row{0, seconds(120), 0, {}, give_up},
             Row{0, milliseconds(0), 0, seconds(5), seconds(5)},
             Row{0, milliseconds(0), 0.8, seconds(5), seconds(6)},
             Row{0, milliseconds(0), 0, seconds(0), milliseconds(250)},
             Row{0, milliseconds(0), 0, seconds(60), seconds(60)},
             Row{0, milliseconds(0), 0, seconds(61), give_up},
             Row{0, milliseconds(0), 0, seconds(1'000'000'000), give_up},
             Row{1, seconds(70), 0, seconds(55), give_up},
         }) {
        INFO("retry " << row.retry << ", waited " << row.waited.count() << " ms, jitter " << row.jitter);
        CHECK(retry_delay(rules, row.retry, row.waited, row.jitter, row.told) == row.wanted);
    }
    rules.retries = 100;
    CHECK(retry_delay(rules, 99, milliseconds(0), 0, {}) == rules.longest / 2);
}

TEST_CASE("hostile row 38: Retry-After is a number, a date, or nothing", "[image][retry]") {
    constexpr int64_t now = 784111777;  // Sun, 06 Nov 1994 08:49:37 GMT
    CHECK(parse_retry_after("5", now) == seconds(5));
    CHECK(parse_retry_after(" 0 ", now) == seconds(0));
    CHECK(parse_retry_after("1000000000", now) == seconds(1'000'000'000));
    CHECK(parse_retry_after("99999999999999999999999", now) == seconds(1'000'000'000));
    CHECK(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now) == seconds(10));
    CHECK(parse_retry_after("Sunday, 06-Nov-94 08:49:47 GMT", now) == seconds(10));
    CHECK(parse_retry_after("Sun Nov  6 08:49:47 1994", now) == seconds(10));
    CHECK(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now) == seconds(0));
    for (const char* junk : {"", " ", "-5", "5.5", "5 s", "soon", "Soon", "0x10", "Xyz, 99 Foo 12:34:56", "5, 6"}) {
        INFO(junk);
        CHECK_FALSE(parse_retry_after(junk, now));
    }
    CHECK_FALSE(parse_retry_after(std::string(100'000, '9'), now));
}

TEST_CASE("the start of a range is read strictly", "[image][retry]") {
    CHECK(range_start("bytes 5-9/10") == 5);
    CHECK(range_start("Bytes 0-9/*") == 0);
    for (const char* junk :
         {"", "bytes", "bytes */10", "bytes -5/10", "items 5-9/10", "bytes x-9/10", "bytes 99999999999999999999-1/2"})
        CHECK_FALSE(range_start(junk));
}
