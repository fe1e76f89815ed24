#include <nlohmann/json.hpp>

#include "runtime/telemetry/counters.hh"
#include "tests/catch.hh"

using namespace berth::plan;

namespace {

Event start_of(uint64_t microseconds) {
    Event out;
    out.time = 1'700'000'000'000'001;
    out.uid = 1000;
    out.user = "alice";
    out.image = "reg/a:1";
    out.total = microseconds;
    out.phases = {{"image", 4000}, {"plan", 100}, {"namespaces", 300}, {"overlay", 600}};
    return out;
}

Event failure_of(Cause cause, Event::Kind of) {
    Event out = start_of(0);
    out.kind = Event::Kind::failure;
    out.cause = cause;
    out.of = of;
    return out;
}

}  // namespace

TEST_CASE("event: a line is JSON of the documented members, whatever the texts hold", "[telemetry]") {
    Event start = start_of(5000);
    start.job = "12.0";
    start.node = "n1";
    start.digest = "sha256:ab";
    start.from = ImageFrom::pull;
    start.bytes = 77;
    start.peer_bytes = 70;
    start.published_bytes = 7;
    auto line = nlohmann::ordered_json::parse(json_line(start));
    CHECK(
        line.dump() ==
        R"({"time":"2023-11-14T22:13:20.000001Z","kind":"start","uid":1000,"user":"alice","node":"n1",)"
        R"("job":"12.0","image":"reg/a:1","digest":"sha256:ab",)"
        R"("from":"pull","bytes":77,"peer_bytes":70,"published_bytes":7,"us":5000,)"
        R"("phases":{"image":4000,"plan":100,"namespaces":300,"overlay":600}})");
    start.signer = "sha256:cd (/k.pub) for reg/a:1";
    start.rule = "default";
    CHECK(json_line(start).find(
              R"("digest":"sha256:ab","signer":"sha256:cd (/k.pub) for reg/a:1","rule":"default","from":)") !=
          std::string::npos);
    start.waited_bytes = 5;
    CHECK(json_line(start).find(R"("published_bytes":7,"waited_bytes":5,"us":)") != std::string::npos);
    start.waited_bytes = 0;
    start.refused = "its diff_id is another";
    CHECK(json_line(start).find(R"("published_bytes":7,"refused":"its diff_id is another","us":)") !=
          std::string::npos);
    Event import = start_of(6000);
    import.kind = Event::Kind::import;
    import.file = "a.sqsh";
    CHECK(
        json_line(import).find(
            R"("kind":"import","uid":1000,"user":"alice","image":"reg/a:1","file":"a.sqsh","bytes":0,"peer_bytes":0,)"
            R"("published_bytes":0,"us":6000,"phases":{"image")") !=
        std::string::npos);
    Event bad = failure_of(Cause::not_found, Event::Kind::pull);
    bad.image = std::string(100'000, '\x01');
    bad.error = "quote \" back \\ line\nend \xff " + std::string(100'000, '\\');
    std::string text = json_line(bad);
    CHECK(text.size() < 8192);
    CHECK(text.find('\n') == text.size() - 1);
    auto failure = nlohmann::json::parse(text);
    CHECK(failure["kind"] == "failure");
    CHECK(failure["of"] == "pull");
    CHECK(failure["cause"] == "not_found");
    CHECK_FALSE(failure.contains("phases"));
}

TEST_CASE("event: a line stays short, whatever its texts hold", "[telemetry]") {
    for (const char* text : {"\x01", "\"", "\xff", "\xc3\xa9", "x"}) {
        std::string all;
        for (int i = 0; i < 5'000; ++i) all += text;
        Event event = start_of(5000);
        event.kind = GENERATE(Event::Kind::start, Event::Kind::import, Event::Kind::failure);
        for (std::string* member : {&event.user, &event.node, &event.job, &event.image, &event.digest, &event.container,
                                    &event.signer, &event.rule, &event.refused, &event.file, &event.error})
            *member = all;
        std::string line = json_line(event);
        CHECK(line.size() < 8192);
        CHECK(nlohmann::json::accept(line));
    }
}

TEST_CASE("event: words and phases go there and back", "[telemetry]") {
    for (size_t i = 0; i < cause_count; ++i) CHECK(cause_of(name_of(static_cast<Cause>(i))) == static_cast<Cause>(i));
    CHECK(cause_of("disk on fire") == Cause::other);
    std::vector<PhaseTime> phases = {{"asking", 1200}, {"pulling", 530000}};
    CHECK(phases_text(phases) == "asking=1200 pulling=530000");
    CHECK(parse_phases(phases_text(phases)) == phases);
    CHECK(parse_phases("77 asking=x =3 merging=4 ").size() == 2);
}

TEST_CASE("counters: each event counts once, at its place", "[telemetry]") {
    Counters counters;
    counters.count(start_of(5000));
    counters.count(start_of(5001));
    counters.count(failure_of(Cause::denied, Event::Kind::start));
    counters.count(failure_of(Cause::denied, Event::Kind::pull));
    counters.count(failure_of(Cause::space, Event::Kind::import));
    Event pull = start_of(400'000'000);
    pull.kind = Event::Kind::pull;
    pull.bytes = 1000;
    pull.peer_bytes = 600;
    pull.published_bytes = 300;
    pull.refused = "x";
    counters.count(pull);
    Event import = start_of(6000);
    import.kind = Event::Kind::import;
    import.bytes = 1000;
    counters.count(import);
    CHECK(counters.starts[static_cast<size_t>(ImageFrom::store)] == 2);
    CHECK(counters.start.buckets[0] == 1);
    CHECK(counters.start.buckets[1] == 1);
    CHECK(counters.start.sum == 10001);
    CHECK(counters.image.sum == 8000);
    CHECK(counters.container.sum == 1800);
    CHECK(counters.container.count() == 2);
    CHECK(counters.entrypoint.count() == 0);
    CHECK(counters.failed_starts[static_cast<size_t>(Cause::denied)] == 1);
    CHECK(counters.failed_pulls[static_cast<size_t>(Cause::denied)] == 1);
    CHECK(counters.failed_imports[static_cast<size_t>(Cause::space)] == 1);
    CHECK(counters.imports == 1);
    CHECK(counters.import.buckets[1] == 1);
    CHECK(counters.pulls == 1);
    CHECK(counters.pull_bytes == 1000);
    CHECK(counters.peer_bytes == 600);
    CHECK(counters.published_bytes == 300);
    CHECK(counters.refused_pulls == 1);
    CHECK(counters.pull.buckets.back() == 1);
}

TEST_CASE("counters: the file's text is read as it was written and in no other way", "[telemetry]") {
    Counters counters;
    counters.count(start_of(5001));
    counters.pull_bytes = 123'456'789'012;
    std::string text = counters_text(counters);
    CHECK(text.size() == counters_size());
    auto read = parse_counters(text);
    REQUIRE(read);
    CHECK(counters_text(*read) == text);
    read->add(counters);
    CHECK(read->pull_bytes == 2 * counters.pull_bytes);
    CHECK_FALSE(parse_counters(""));
    CHECK_FALSE(parse_counters(text + "\n"));
    CHECK_FALSE(parse_counters(text.substr(1)));
    for (size_t at : {size_t{0}, size_t{15}, size_t{17}, text.size() - 1, text.size() - 2}) {
        std::string broken = text;
        broken[at] = '-';
        CHECK_FALSE(parse_counters(broken));
    }
    // With which a sum could overflow.
    std::string huge = text;
    huge.replace(17, 16, "9999999999999999");
    CHECK_FALSE(parse_counters(huge));
}

TEST_CASE("counters: Prometheus' text has cumulative buckets and every member of the closed sets", "[telemetry]") {
    Counters counters;
    counters.count(start_of(5000));
    counters.count(start_of(700'000'000));
    std::string text = prometheus_text(counters, 3, 1);
    for (const char* line :
         {"berth_starts_total{from=\"store\"} 2\n", "berth_failures_total{of=\"pull\",cause=\"space\"} 0\n",
          "berth_start_seconds_bucket{le=\"0.005\"} 1\n", "berth_start_seconds_bucket{le=\"300\"} 1\n",
          "berth_start_seconds_bucket{le=\"+Inf\"} 2\n", "berth_start_seconds_sum 700.005000\n",
          "berth_start_seconds_count 2\n", "berth_start_phase_seconds_bucket{phase=\"image\",le=\"0.005\"} 2\n",
          "berth_start_phase_seconds_count{phase=\"plan\"} 2\n", "berth_counter_files{state=\"refused\"} 1\n",
          "berth_failures_total{of=\"import\",cause=\"space\"} 0\n", "berth_imports_total 0\n",
          "berth_import_seconds_count 0\n"})
        CHECK(text.find(line) != std::string::npos);
    CHECK(nlohmann::json::parse(counters_json(counters, 3, 1))["times"]["start"]["count"] == 2);
}
