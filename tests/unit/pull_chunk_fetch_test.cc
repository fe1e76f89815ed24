// In which order the chunks of an image come that has started already.
#include "runtime/base/text.hh"
#include "runtime/pull/lazy/chunk_fetch.hh"
#include "runtime/store/profile.hh"
#include "tests/catch.hh"

using namespace berth;

TEST_CASE("early: what is waited for comes first, then what starts read, then what lies behind it, then the rest",
          "[pull][early]") {
    using UpTo = pull::ChunkOrder::UpTo;
    pull::ChunkOrder order({10, 100}, {12, 13, 25, 3});
    auto taken = [&](const std::vector<uint32_t>& wanted, UpTo up_to = UpTo::rest) {
        auto run = order.next(wanted, up_to);
        return run ? cat(run->layer, ":", run->chunks.first, "+", run->chunks.count, run->urgent ? "!" : "") : "";
    };
    CHECK(order.lacks_profile());
    CHECK(taken({}, UpTo::wanted).empty());
    CHECK(taken({8}) == "0:8+2!");
    CHECK(taken({8, 9}) == "1:12+2");
    CHECK(taken({20, 27}, UpTo::wanted) == "1:20+4!");
    CHECK(taken({20, 27}, UpTo::wanted) == "1:27+4!");
    CHECK(taken({}, UpTo::profile) == "1:25+1");
    CHECK(taken({}, UpTo::profile) == "0:3+1");
    CHECK(taken({}, UpTo::profile).empty());
    // Sixty-four behind the last one.
    CHECK(taken({}) == "1:31+16");
    CHECK(taken({}) == "1:47+16");
    CHECK(taken({}, UpTo::behind) == "1:63+16");
    CHECK(taken({}, UpTo::behind) == "1:79+16");
    CHECK(taken({}, UpTo::behind).empty());
    CHECK(taken({}) == "0:0+3");
    CHECK(taken({}) == "0:4+4");
    // Behind the end of a layer is nothing.
    CHECK(taken({98}) == "1:98+2!");
    CHECK(taken({}) == "1:10+2");
    CHECK(taken({}) == "1:14+6");
    CHECK(taken({}) == "1:24+1");
    CHECK(taken({}) == "1:26+1");
    CHECK(taken({}) == "1:95+3");
    CHECK(taken({26}).empty());
    for (uint32_t chunk : {12, 13, 25}) order.set_here(chunk);
    CHECK(order.lacks_profile());
    for (uint32_t chunk = 0; chunk < 100; ++chunk) order.set_here(chunk), order.set_here(chunk);
    CHECK_FALSE(order.lacks_profile());
    CHECK(order.is_complete());
}

TEST_CASE("early: with other nodes what they bring comes from them, and the profile before any of the rest",
          "[pull][early]") {
    using UpTo = pull::ChunkOrder::UpTo;
    bool is_gone = false;
    auto source = [&](uint32_t chunk) {
        return chunk % 8 < 4 && !is_gone ? std::optional<unsigned>(1) : std::nullopt;
    };
    pull::ChunkOrder order({20}, {2, 3, 5}, source);
    auto taken = [&](const std::vector<uint32_t>& wanted, UpTo up_to = UpTo::rest) {
        auto run = order.next(wanted, up_to);
        return run ? cat(run->chunks.first, "+", run->chunks.count, run->from ? "<" : "", run->urgent ? "!" : "") : "";
    };
    CHECK(taken({}, UpTo::wanted).empty());
    // Of the profile what another node sends comes by itself, and nothing is held up for what this one brings.
    CHECK(taken({2}, UpTo::wanted).empty());
    CHECK(taken({5}, UpTo::wanted) == "5+1");
    // Whatever else somebody waits for, from whom it is to come.
    CHECK(taken({1}, UpTo::wanted) == "1+3<!");
    CHECK(taken({}).empty());
    for (uint32_t chunk : {2, 5}) CHECK(order.set_here(chunk));
    CHECK_FALSE(order.set_here(5));
    CHECK(taken({}).empty());
    order.set_here(3);
    CHECK(taken({}, UpTo::profile).empty());
    CHECK(taken({}) == "4+1");
    CHECK(taken({}) == "6+2");
    CHECK(taken({}) == "12+4");
    CHECK(taken({}).empty());
    // Far behind in that request; once. The one before it comes soon.
    CHECK(taken({13, 14}, UpTo::wanted) == "14+1!");
    CHECK(taken({13, 14}, UpTo::wanted).empty());
    order.set_here(12), order.set_here(13);
    CHECK(taken({14, 15}, UpTo::wanted).empty());
    // Those of a request for what is waited for are none of these.
    pull::ChunkOrder urgent({20}, {}, source);
    CHECK(urgent.next({12, 13, 14, 15}, UpTo::wanted)->chunks.count == 4);
    CHECK_FALSE(urgent.next({12, 13, 14, 15}, UpTo::wanted));
    is_gone = true;
    CHECK(taken({}) == "0+1");
    CHECK(taken({}) == "8+4");
    CHECK(taken({}) == "16+4");
    CHECK(taken({}).empty());
}

TEST_CASE("early: a start is over when nothing was waited for, for a quarter of its time", "[pull][early]") {
    using namespace std::chrono_literals;
    pull::StartWatch::Time began{};
    pull::StartWatch start(began);
    CHECK_FALSE(start.is_over(began, 0, false));
    CHECK(start.is_over(began + 500ms, 0, false));
    CHECK_FALSE(start.is_over(began + 600ms, 1, false));
    CHECK_FALSE(start.is_over(began + 1099ms, 1, false));
    CHECK(start.is_over(began + 1100ms, 1, false));
    CHECK_FALSE(start.is_over(began + 8s, 1, true));
    CHECK_FALSE(start.is_over(began + 9900ms, 1, false));
    CHECK(start.is_over(began + 10s, 1, false));
    // A program that reads after an hour holds it up for five seconds.
    CHECK_FALSE(start.is_over(began + 3600s, 2, false));
    CHECK_FALSE(start.is_over(began + 3604s, 2, false));
    CHECK(start.is_over(began + 3605s, 2, false));
}

TEST_CASE("early: a profile is a list of chunks, whatever its bytes", "[pull][early]") {
    CHECK(store::parse_profile(store::format_profile({3, 1, 70'000}), 70'001) == std::vector<uint32_t>{3, 1, 70'000});
    CHECK(store::parse_profile(store::format_profile({3, 1, 3, 9}) + "x", 4) == std::vector<uint32_t>{3, 1});
    CHECK(store::parse_profile("", 4).empty());
}
