// Progress as a value, as text and as JSON: no clock, no terminal.
#include "runtime/pull/progress/progress.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"
#include "runtime/pull/progress/progress_json.hh"
#include "runtime/pull/progress/progress_text.hh"
#include "runtime/pull/progress/views.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::pull;
using Catch::Contains;

namespace {

std::string digest(char c) { return cat("sha256:", std::string(64, c)); }

/// A pull of a layer in each state, with these bytes of a gigabyte in the second one.
Status pulling(uint64_t received = 250'000'000) {
    Status out{.image = "r.io/a:1",
               .phase = Phase::pulling,
               .phase_number = 3,
               .title = "pulling image r.io/a:1",
               .elapsed = 12,
               .phase_elapsed = 10};
    out.layers = {
        {digest('a'), 1000, 1000, LayerState::done},   {digest('b'), 1'000'000'000, received, LayerState::pulling},
        {digest('c'), 0, 0, LayerState::queued},       {digest('d'), 500, 0, LayerState::waiting, "process 12 on n1"},
        {digest('e'), 3000, 3000, LayerState::saving}, {digest('f'), 3000, 0, LayerState::present}};
    for (const LayerStatus& layer : out.layers) {
        out.received += layer.received;
        if (layer.state != LayerState::present) out.total += layer.total;
    }
    return out;
}

Status with_layers(size_t count) {
    Status out = pulling();
    out.layers.assign(count, {digest('9'), 100, 0, LayerState::queued});
    return out;
}

}  // namespace

TEST_CASE("progress: the meter adds up what the threads count, and tells the states in order", "[progress]") {
    Meter meter("r.io/a:1");
    meter.begin(Phase::asking, "asking r.io");
    meter.begin_layers("pulling image r.io/a:1", {{digest('a'), 100}, {digest('b'), 50}, {digest('c'), 7}});
    meter.set_layer(0, LayerState::pulling);
    meter.advance_layer(0, 60);
    meter.advance_layer(0, 40);
    meter.set_layer(0, LayerState::done);
    meter.set_layer(1, LayerState::waiting, "process 1 on n");
    meter.set_layer(1, LayerState::waiting, "process 1 on n");
    meter.set_layer(1, LayerState::present);
    meter.note("mirror passed over");
    meter.note("mirror passed over");
    Status status = meter.status();
    CHECK(status.received == 100);
    CHECK(status.total == 107);
    CHECK(status.layers.at(1).state == LayerState::present);
    std::string told;
    for (const Event& event : meter.take_events())
        told += event.kind == Event::Kind::layer  ? cat(name_of(event.layer.state), event.layer.received, " ")
                : event.kind == Event::Kind::note ? "note "
                                                  : cat(name_of(event.phase), " ");
    CHECK(told == "asking pulling pulling0 done100 waiting0 present0 note ");
    CHECK(meter.take_events().empty());
    meter.begin(Phase::merging, "merging");
    CHECK(meter.status().received == 0);
    CHECK(meter.fetched() == 100);
}

TEST_CASE("progress: a rate is that of the last seconds, and falls to nothing when nothing comes", "[progress]") {
    Rates rates;
    Status status{.phase_number = 1, .total = 10'000};
    auto at = [&](double time, uint64_t received) {
        status.elapsed = time, status.phase_elapsed = time, status.received = received, status.eta = {};
        rates.update(status);
        return status.rate;
    };
    CHECK(at(1, 1000) == Approx(1000));
    CHECK(*status.eta == Approx(9));
    CHECK(at(6, 1500) == Approx(250));
    CHECK(at(11, 1500) == Approx(50));
    CHECK(at(16, 1500) == 0);
    CHECK_FALSE(status.eta);
    CHECK(at(17, 7500) == Approx(1000));
    status.phase_number = 2;
    CHECK(at(20, 0) == 0);
    CHECK(at(24, 0) == 0);
    CHECK(at(25, 500) == Approx(500));
}

TEST_CASE("progress: the line of a log has phase, bytes, rate, time left and waits", "[progress]") {
    Status status = pulling();
    status.rate = 50e6, status.eta = 15;
    CHECK(line_of(status) == cat("pulling image r.io/a:1: 250 MB of 1.0 GB (25%), 50.0 MB/s, 15 s left, 2 of 6 layers "
                                 "done, 1 being written; waiting for the layer ",
                                 digest('d'), ", which process 12 on n1 is pulling"));
    status = {.phase = Phase::merging, .title = "merging the 3 layers of image x", .phase_elapsed = 4.2};
    CHECK(line_of(status) == "merging the 3 layers of image x: 5 s so far");
    status.received = 5000, status.rate = 1000, status.retry_in = 3.5;
    CHECK(line_of(status) == "merging the 3 layers of image x: 5.0 kB, 1.0 kB/s; trying again in 4 s");
    CHECK(human_seconds(125) == "2 min 5 s");
    CHECK(human_seconds(7800) == "2 h 10 min");
    CHECK(human_seconds(1e300) == human_seconds(1e9));
}

TEST_CASE("progress: a bar a layer and a total", "[progress]") {
    Status status = pulling();
    status.rate = 50e6, status.eta = 15;
    status.layers[1].rate = 50e6;
    std::vector<std::string> lines = bars_of(status, 80, 24);
    REQUIRE(lines.size() == 8);
    CHECK(lines[0] == "pulling image r.io/a:1");
    CHECK(lines[1] == "aaaaaaaaaaaa [===========================] done          1.0 kB");
    CHECK(lines[2] == "bbbbbbbbbbbb [=====>                     ]  25%  250 MB of 1.0 GB   50.0 MB/s");
    CHECK(lines[3] == "cccccccccccc [                           ] queued        0 B");
    CHECK(lines[4] == "dddddddddddd [                           ] waiting for process 12 on n1");
    CHECK(lines[6] == "ffffffffffff [===========================] here already  3.0 kB");
    CHECK_THAT(lines[7], Catch::StartsWith("total        [===>") && Catch::EndsWith(" 15 s left"));
}

TEST_CASE("progress: bars fit any terminal", "[progress]") {
    Status status = pulling(1'500'000'000);  // More than was announced.
    status.title = "pulling image \xc3\xa9\xf0\x9f\x9a\xa2/" + std::string(300, 'x') + "\x1b[2J";
    status.rate = 1e18, status.eta = 1e9, status.retry_in = 2;
    for (unsigned columns = 1; columns < 200; ++columns)
        for (unsigned rows : {2, 3, 4, 5, 6, 24}) {
            std::vector<std::string> lines = bars_of(status, columns, rows);
            CHECK(lines.size() < rows);
            for (const std::string& line : lines) {
                CHECK(line.size() < std::max(columns, 8U));
                CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }));
            }
        }
    CHECK(bars_of(status, 20, 24)[2] == "bbbbbbbbbbbb 100%");
    CHECK_THAT(bars_of(status, 40, 24)[2], Contains("[=====") && Contains("100%"));
}

TEST_CASE("progress: with more layers than rows those that go on are shown, and the others counted", "[progress]") {
    Status status = with_layers(100);
    for (size_t i = 0; i < 60; ++i) status.layers[i].state = LayerState::done;
    status.layers[70].state = LayerState::pulling;
    status.layers[70].digest = digest('7');
    std::vector<std::string> lines = bars_of(status, 80, 10);
    REQUIRE(lines.size() == 9);
    CHECK_THAT(lines[6], Catch::StartsWith("777777777777 ["));
    CHECK(lines[7] == "and 94 more layers, 60 of them done");
    CHECK_THAT(lines[8], Catch::StartsWith("total"));
}

TEST_CASE("progress: a log gets a line after a second and then every five, and warnings and retries at once",
          "[progress]") {
    std::vector<std::string> lines;
    LineView view([&](const std::string& line) { lines.push_back(line); });
    Status status = pulling();
    status.elapsed = 0.1;
    CHECK(view.due() == 1);
    view.event({.kind = Event::Kind::phase, .text = "waiting", .phase = Phase::waiting}, status);
    view.event({.kind = Event::Kind::note, .text = "mirror passed over: x"}, status);
    CHECK(lines.empty());
    view.event({.kind = Event::Kind::warning, .text = "w"}, status);
    view.event({.kind = Event::Kind::retry, .text = "reset", .seconds = 1.5}, status);
    CHECK(lines == std::vector<std::string>{"warning: w", "trying again in 2 s: reset"});
    status.elapsed = 1;
    view.tick(status);
    REQUIRE(lines.size() == 4);
    CHECK(lines[2] == "mirror passed over: x");
    CHECK(lines[3] == line_of(status));
    CHECK(view.due() == 6);
    status.elapsed = 3;
    view.event({.kind = Event::Kind::layer, .layer = status.layers[1]}, status);
    CHECK(lines.size() == 4);
    view.event({.kind = Event::Kind::layer, .layer = status.layers[3]}, status);
    REQUIRE(lines.size() == 5);
    CHECK_THAT(lines[4], Contains("process 12 on n1"));
}

TEST_CASE("progress: of nodes that share, one tells of all, and another one once it is done", "[progress]") {
    std::vector<std::string> lines;
    LineView view([&](const std::string& line) { lines.push_back(line); });
    Status status = pulling();
    status.title = "pulling image a";
    status.step = nodes::StepStatus{.nodes = 8, .ready = 5, .registry = 7'100'000'000, .peers = 38'000'000'000,
                                    .rate = 6'100'000'000, .last = "n7", .last_bytes = 1'200'000'000,
                                    .last_total = 7'100'000'000};
    status.elapsed = 1;
    view.tick(status);
    CHECK(lines.empty());
    CHECK(view.due() == 2);
    status.elapsed = 2;
    status.step->is_told_here = true;
    view.tick(status);
    CHECK(lines == std::vector<std::string>{
                       "pulling image a: 5 of 8 nodes have it, n7 is last with 1.2 GB of 7.1 GB (16%); 7.1 GB from "
                       "the registry, 38.0 GB from node to node, 6.1 GB/s"});
    CHECK(view.due() == 7);
    status.elapsed = 7;
    status.step.reset();
    view.tick(status);
    CHECK(lines.back() == line_of(status));
    CHECK_THAT(lines.back(), Contains("2 of 6 layers done"));
}

TEST_CASE("progress: JSON is an object a line, whatever bytes a name has", "[progress]") {
    JsonHead head{json_time(1'795'246'800'123), "oci:/a\xff\"\n"};
    CHECK(head.time == "2026-11-21T07:40:00.123Z");
    auto parse = [](const std::string& line) {
        CHECK(line.find('\n') == line.size() - 1);
        return nlohmann::json::parse(line);
    };
    auto event = parse(json_of(head, {.kind = Event::Kind::layer, .layer = pulling().layers[3]}));
    CHECK(event["event"] == "layer");
    CHECK(event["state"] == "waiting");
    CHECK(event["owner"] == "process 12 on n1");
    CHECK(event["total"] == 500);
    Status status = pulling();
    status.rate = 49'999'999.7, status.eta = 15;
    std::string lines = json_progress(head, status);
    size_t end = lines.find('\n') + 1;
    CHECK(parse(lines.substr(0, end))["layer"] == digest('b'));
    auto total = parse(lines.substr(end));
    CHECK(total["bytes"] == 250'004'000);
    CHECK(total["total"] == 1'000'004'500);
    CHECK(total["rate"] == 50'000'000);
    CHECK(total["eta"] == 15);
    CHECK(parse(json_done(head, digest('1'), 7))["digest"] == digest('1'));
    auto error = parse(json_error(head, Error("bad \xfe", 127)));
    CHECK(error["event"] == "error");
    CHECK(error["code"] == 127);
}
