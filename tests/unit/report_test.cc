// berth report: events as they are written, what they come to, and how that is shown.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/report/model.hh"
#include "runtime/pull/report/read_events.hh"
#include "runtime/pull/report/text.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::pull::report;
using Catch::Contains;
using plan::Event;

namespace {

constexpr int64_t noon = int64_t{1'764'158'400} * 1'000'000;  // 2025-11-26 12:00 UTC
constexpr int64_t second = 1'000'000;

/// A start that ends `end` seconds after noon and took `took` milliseconds, all but 10 of them for the image.
Event start_on(const std::string& node, int64_t end, uint64_t took, plan::ImageFrom from = plan::ImageFrom::store) {
    Event out;
    out.time = noon + end * second;
    out.node = node;
    out.job = "7.0";
    out.image = "reg/a:1";
    out.from = from;
    out.total = took * 1000;
    out.phases = {{"image", out.total - 10'000}, {"plan", 1'000}, {"overlay", 9'000}};
    return out;
}

Event pull_on(const std::string& node, int64_t end, std::vector<plan::PhaseTime> phases) {
    Event out = start_on(node, end, 0);
    out.kind = Event::Kind::pull;
    out.phases = std::move(phases);
    out.total = 0;
    for (const plan::PhaseTime& phase : out.phases) out.total += phase.microseconds;
    out.bytes = 1000, out.peer_bytes = 600, out.published_bytes = 300;
    return out;
}

Event failure_on(const std::string& node, plan::Cause cause, const std::string& error) {
    Event out = start_on(node, 5, 2'000);
    out.kind = Event::Kind::failure;
    out.of = Event::Kind::start;
    out.cause = cause;
    out.error = error;
    return out;
}

/// Two nodes of a step, the second of which pulls.
std::vector<Event> cold_step() {
    Event pull = pull_on("n2", 4, {{"asking", 200'000}, {"pulling", 2'500'000}, {"merging", 100'000}});
    return {start_on("n1", 1, 300), pull, start_on("n2", 4, 3'000, plan::ImageFrom::pull)};
}

size_t count_of(const std::string& text, const std::string& what) {
    size_t out = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++out;
    return out;
}

}  // namespace

TEST_CASE("report: what is written as an event is read as one", "[report]") {
    Event start = start_on("n1", 1, 300, plan::ImageFrom::pull);
    start.user = "alice";
    start.bytes = 77, start.peer_bytes = 70, start.published_bytes = 7;
    // In the order in which they were, which is not that of the alphabet.
    start.phases = {{"image", 290'000}, {"plan", 1'000}, {"enter", 9'000}};
    auto read = parse_event(plan::json_line(start));
    REQUIRE(read);
    CHECK(plan::json_line(*read) == plan::json_line(start));
    Event failure = failure_on("n2", plan::Cause::network, "no answer from \"x\"");
    read = parse_event(plan::json_line(failure));
    REQUIRE(read);
    CHECK(plan::json_line(*read) == plan::json_line(failure));
}

TEST_CASE("report: what is no event is left out, and counted", "[report]") {
    for (const char* line : {"", "{", "[]", "null", R"({"kind":"start"})", R"({"time":"2025-11-26T12:00:00.000000Z"})",
                             R"({"time":"yesterday","kind":"start"})", R"({"time":7,"kind":"start"})",
                             R"({"time":"2025-11-26T12:00:00.000000Z","kind":"start","node":7})",
                             R"({"time":"2025-11-26T12:00:00.000000Zx","kind":"start"})"}) {
        INFO(line);
        CHECK(!parse_event(line));
    }
    // Members of a later release.
    CHECK(parse_event(R"({"time":"2025-11-26T12:00:00.000000Z","kind":"start","new":[1],"us":-1,"phases":{"a":-1}})"));
    fixtures::TempFolder folder;
    std::ofstream(folder / "log") << plan::json_line(start_on("n1", 1, 300)) << "nonsense\n\n"
                                  << plan::json_line(start_on("n2", 1, 300)).substr(0, 60);
    EventFile file = read_events(folder / "log");
    CHECK(file.events.size() == 1);
    CHECK(file.unread == 2);
    CHECK_THROWS_WITH(read_events(folder / "none"), Contains("none: No such file"));
}

TEST_CASE("report: what a user makes of his log costs others nothing", "[report]") {
    fixtures::TempFolder folder;
    std::string good = plan::json_line(start_on("n1", 1, 300));
    std::ofstream(folder / "good") << good;
    std::ofstream(folder / "long") << std::string(5'000'000, 'x') << "\n" << good;
    CHECK(read_events_of_users(folder / "good").events.size() == 1);
    EventFile file = read_events_of_users(folder / "long");
    CHECK(file.events.size() == 1);
    CHECK(file.unread == 1);
    fixtures::run_command(cat("cd ", folder.path(), " && ln -s good link && mkfifo pipe && ln -s /dev/zero zero"));
    for (const char* name : {"link", "pipe", "zero"}) CHECK_THROWS_AS(read_events_of_users(folder / name), Error);
    std::string all;
    for (const char* name : {"link", "pipe", "good", "zero"}) all += cat(" --site-log ", folder / name);
    auto result = fixtures::run_command(cat(fixtures::built_program("berth-pull"), " report", all));
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains("1 warm start") && Contains("pipe: no regular file; left out"));
}

TEST_CASE("report: numbers beyond all measure are no times", "[report]") {
    auto event = parse_event(R"({"time":"2025-11-26T12:00:00.000000Z","kind":"start","job":"7.0",)"
                             R"("us":9223372036854775808,"bytes":18446744073709551615,)"
                             R"("phases":{"image":18446744073709551615}})");
    REQUIRE(event);
    CHECK(event->total == 1'000'000'000'000'000);
    CHECK(event->phases[0].microseconds == event->total);
    CHECK_THAT(page_of(report_of_job({*event, *event}, "7")), Contains("<svg"));
}

TEST_CASE("report: a step's nodes, the slowest first, and what it waited for longest", "[report]") {
    JobReport report = report_of_job(cold_step(), "7");
    REQUIRE(report.steps.size() == 1);
    const StepReport& step = report.steps[0];
    CHECK(step.step == "7.0");
    CHECK(step.begin == noon + 700'000);
    CHECK(step.total == 3'300'000);
    REQUIRE(step.rows.size() == 2);
    CHECK(step.rows[0].node == "n2");
    CHECK(step.rows[0].is_cold);
    CHECK(step.rows[1].node == "n1");
    std::vector<plan::PhaseTime> wanted{{"asking", 200'000}, {"pulling", 2'500'000}, {"merging", 100'000},
                                        {"image", 190'000},  {"plan", 1'000},        {"overlay", 9'000}};
    CHECK(step.rows[0].phases == wanted);
    REQUIRE(step.pole);
    CHECK(step.pole->node == "n2");
    CHECK(step.pole->phase == "pulling");
    CHECK(step.pole->microseconds == 2'500'000);
}

TEST_CASE("report: steps of other jobs, and pulls of other nodes and times, are not mixed in", "[report]") {
    std::vector<Event> events = cold_step();
    Event other = start_on("n9", 1, 9'000);
    other.job = "77.0";
    events.push_back(other);
    events.push_back(pull_on("n1", 100, {{"pulling", 5'000'000}}));
    Event later = start_on("n1", 50, 200);
    later.job = "7.1";
    events.push_back(later);
    JobReport report = report_of_job(events, "7");
    REQUIRE(report.steps.size() == 2);
    CHECK(report.steps[1].step == "7.1");
    CHECK(report.steps[0].rows[1].phases.front().name == "image");
    CHECK(report_of_job(events, "7.1").steps.size() == 1);
    CHECK(report_of_job(events, "8").steps.empty());
    CHECK_THAT(text_of(report_of_job(events, "8")), Contains("job 8: no start"));
}

TEST_CASE("report: a start that did not wait for its image, and when that was whole", "[report]") {
    std::vector<Event> events{start_on("n1", 1, 300, plan::ImageFrom::pull), start_on("n2", 2, 300)};
    // Begins within the start, and ends 6.1 s after its begin.
    events.push_back(pull_on("n1", 6, {{"asking", 100'000}, {"pulling", 5'800'000}}));
    events.back().time += 800'000;
    // One of another step's image meanwhile is not this one's.
    events.push_back(pull_on("n2", 6, {{"pulling", 4'100'000}}));
    JobReport report = report_of_job(events, "7");
    REQUIRE(report.steps.size() == 1);
    const StepReport& step = report.steps[0];
    REQUIRE(step.rows.size() == 2);
    CHECK(step.total == 1'300'000);
    CHECK(step.whole == 6'100'000);
    for (const Row& row : step.rows) {
        CHECK(row.whole == (row.node == "n1" ? 6'100'000 : 0));
        CHECK(row.bytes == (row.node == "n1" ? 1000 : 0));
        CHECK(row.phases.front().name == "image");
    }
    CHECK_THAT(text_of(report), Contains("all ready after 1.3 s, whole after 6.1 s\n") &&
                                    Contains("image 290 ms, overlay 9 ms, plan 1 ms, whole after 6.1 s\n"));
    CHECK(count_of(page_of(report), "the rest of the image, whole after 6.1 s") == 1);
}

TEST_CASE("report: a step as text", "[report]") {
    std::vector<Event> events = cold_step();
    events.push_back(failure_on("n3", plan::Cause::space, "no space on n3"));
    std::string text = text_of(report_of_job(events, "7"));
    CHECK_THAT(text, Contains("step 7.0: reg/a:1 on 3 nodes, 2 of them ready after 4.3 s\n"));
    CHECK_THAT(text, Contains("longest: pulling on n2, 2.5 s of 3.0 s\n"));
    CHECK_THAT(text, Contains("  n2    3.0 s    ############################## pulling 2.5 s, asking 200 ms, "
                              "image 190 ms, merging 100 ms\n"));
    CHECK_THAT(text, Contains("  n3    2.0 s    failed: no space on n3\n"));
    CHECK_THAT(text, Contains("  n1    300 ms   ###"));
}

TEST_CASE("report: of many nodes the slowest are shown", "[report]") {
    std::vector<Event> events;
    for (int i = 0; i < 100; ++i) events.push_back(start_on(cat("n", i), 10, 1'000 + 10 * static_cast<uint64_t>(i)));
    JobReport report = report_of_job(events, "7.0");
    std::string text = text_of(report), page = page_of(report);
    CHECK_THAT(text, Contains("and 36 nodes more, each after at most 1.4 s"));
    CHECK_THAT(page, Contains("And 36 nodes more"));
    CHECK_THAT(page, Contains(">n99</text>") && !Contains(">n35</text>"));
}

TEST_CASE("report: a site's starts by hour, images, bytes and failures", "[report]") {
    std::vector<Event> events = cold_step();
    for (int i = 0; i < 3; ++i) {
        Event next = start_on("n1", 3600 + i, 100);
        next.image = "reg/b:1";
        events.push_back(next);
    }
    events.push_back(failure_on("n3", plan::Cause::space, "x"));
    events.push_back(failure_on("n3", plan::Cause::network, "x"));
    events.push_back(failure_on("n4", plan::Cause::network, "x"));
    SiteReport report = report_of_site(events);
    CHECK(report.warm == 4);
    CHECK(report.cold == 1);
    CHECK(report.pulls == 1);
    CHECK(report.bytes == 1000);
    CHECK(report.peer_bytes == 600);
    CHECK(report.published_bytes == 300);
    REQUIRE(report.hours.size() == 2);
    CHECK(report.hours[0].begin == noon / second);
    CHECK(report.hours[0].failed == 3);
    CHECK(report.hours[1].warm == 3);
    REQUIRE(report.images.size() == 2);
    CHECK(report.images[0].image == "reg/a:1");
    CHECK(report.images[0].mean == 1'650'000);
    CHECK(report.images[0].worst == 3'000'000);
    REQUIRE(report.failures.size() == 2);
    CHECK(report.failures[0] == std::pair(plan::Cause::network, uint64_t{2}));
    std::string text = text_of(report);
    CHECK_THAT(text,
               Contains("from 2025-11-26 12:00 to 2025-11-26 13:00 UTC: 4 warm starts, 1 cold, 1 pull, 0 imports"));
    CHECK_THAT(text, Contains("2025-11-26 12:00  ") && Contains("1 warm, 1 cold, 3 failed\n"));
    CHECK_THAT(text, Contains("1.6 s    reg/a:1: 2 starts, 1 cold, the slowest 3.0 s\n"));
    CHECK_THAT(text, Contains("  network      2\n"));
    CHECK(text_of(report_of_site({})) == "no events\n");
}

TEST_CASE("report: a page is well-formed, has no scripts, and shows what users wrote as text", "[report]") {
    std::vector<Event> events = cold_step();
    events[0].image = R"(<script>alert("1")</script>&'<b>)";
    events[2].node = "<svg onload=x>";
    events.push_back(failure_on("</svg><script>", plan::Cause::space, "<img src=x onerror=y>\n\x1b[31m"));
    for (const std::string& page : {page_of(report_of_job(events, "7")), page_of(report_of_site(events))}) {
        CHECK(count_of(page, "<script") == 0);
        CHECK(count_of(page, "<img") == 0);
        CHECK(count_of(page, "onload=x>") == 0);
        CHECK(page.find('\x1b') == page.npos);
        CHECK_THAT(page, Contains("default-src 'none'"));
        fixtures::TempFolder folder;
        std::ofstream(folder / "page.html") << page;
        // As XML, but for the two elements that HTML leaves open.
        auto checked = fixtures::run_command(cat(
            "sed '/^<!DOCTYPE/d; s|<meta \\([^>]*\\)>|<meta \\1/>|g' ", folder / "page.html",
            " | python3 -c 'import sys, xml.dom.minidom as m; m.parseString(sys.stdin.buffer.read())'"));
        INFO(checked.output);
        CHECK(checked.status == 0);
    }
}

TEST_CASE("report: on a page bars stay beside their labels, and rows below one another", "[report]") {
    std::vector<Event> events = cold_step();
    events[0].node = std::string(60, 'n');
    std::string page = page_of(report_of_job(events, "7"));
    std::vector<double> rows;
    // What the colours stand for comes before.
    for (size_t at = page.find("<rect ", page.find("<g ")); at != page.npos; at = page.find("<rect ", at + 1)) {
        double x = 0, y = 0, width = 0;
        REQUIRE(std::sscanf(page.c_str() + at, R"(<rect x="%lf" y="%lf" width="%lf")", &x, &y, &width) == 3);
        CHECK(x >= 190);
        CHECK(x + width <= 920.6);
        if (rows.empty() || rows.back() != y) rows.push_back(y);
    }
    CHECK(rows == std::vector<double>{0, 22});
    CHECK_THAT(page, Contains(">nnnnnnnnnnnnnnnnnnnnn...</text>"));
}

namespace {

/// Of each name in the legends of a page: the colours that stand for it.
std::map<std::string, std::set<std::string>> legend_of(const std::string& page) {
    std::map<std::string, std::set<std::string>> out;
    for (size_t at = page.find("<svg"); at != page.npos; at = page.find("<svg", at + 1)) {
        std::string legend = page.substr(at, page.find("<g ", at) - at);
        for (size_t rect = legend.find("fill=\"#", legend.find("<rect ")); rect != legend.npos;
             rect = legend.find("fill=\"#", rect + 1)) {
            size_t name = legend.find("<title>", rect) + 7;
            out[legend.substr(name, legend.find("</title>", name) - name)].insert(legend.substr(rect + 6, 7));
        }
    }
    return out;
}

/// How unlike two colours look: https://www.compuphase.com/cmetric.htm, 0 to some 765.
double unlikeness(const std::string& one, const std::string& other) {
    auto part = [](const std::string& colour, size_t at) {
        return static_cast<double>(std::stoi(colour.substr(at, 2), nullptr, 16));
    };
    double red = part(one, 1) - part(other, 1), green = part(one, 3) - part(other, 3),
           blue = part(one, 5) - part(other, 5), mean = (part(one, 1) + part(other, 1)) / 2;
    return std::sqrt((2 + mean / 256) * red * red + 4 * green * green + (2 + (255 - mean) / 256) * blue * blue);
}

}  // namespace

TEST_CASE("report: a phase has one colour in all steps, and no two that take long look alike", "[report][colours]") {
    const std::vector<std::string> names = {"asking", "waiting", "pulling", "merging", "image",
                                            "plan",   "helper",  "join",    "enter"};
    std::vector<Event> events;
    for (int step = 0; step < 2; ++step) {
        Event next = start_on("n1", 10 + 100 * step, 9'000);
        next.job = cat("7.", step);
        next.phases.clear();
        for (const std::string& name : names) next.phases.push_back({name, 1'000'000});
        if (step == 1) std::ranges::reverse(next.phases);
        events.push_back(next);
    }
    Event failed = failure_on("n2", plan::Cause::space, "x");
    failed.job = "7.0";
    events.push_back(failed);
    auto legend = legend_of(page_of(report_of_job(events, "7")));
    std::vector<std::string> colours = {"#c0392b", "#d5dde5"};  // what failed, and the rest of an image
    for (const std::string& name : names) {
        INFO(name);
        REQUIRE(legend[name].size() == 1);
        colours.push_back(*legend[name].begin());
    }
    for (size_t i = 0; i < colours.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
            INFO(colours[i] << " " << colours[j]);
            CHECK(unlikeness(colours[i], colours[j]) > 100);
        }
}

TEST_CASE("report: a step in a named container has its name for a title, and phases are explained", "[report]") {
    Event joined = start_on("n1", 1, 300, plan::ImageFrom::container);
    joined.image = "";
    joined.container = "work<b>";
    joined.phases = {{"join", 300'000}};
    auto read = parse_event(plan::json_line(joined));
    REQUIRE(read);
    JobReport report = report_of_job({*read}, "7");
    CHECK_THAT(page_of(report), Contains("<h2>Step 7.0: container work&lt;b&gt;</h2>"));
    CHECK_THAT(page_of(report), Contains("<td>join</td><td>joining a named container that runs</td>") &&
                                    !Contains("<td>pulling</td>"));
    CHECK_THAT(text_of(report), Contains("step 7.0: container work<b> on 1 node"));
    CHECK_THAT(page_of(report_of_site({*read})), Contains("<tr><td>container work&lt;b&gt;</td>"));
    CHECK_THAT(page_of(report_of_job(cold_step(), "7")), Contains("<td>pulling</td><td>fetching, "));
}

TEST_CASE("report: an hour's number has those that failed, as its bar has", "[report]") {
    std::vector<Event> events;
    for (int i = 0; i < 9; ++i) events.push_back(start_on("n1", i, 1));
    for (int i = 0; i < 2; ++i) events.push_back(failure_on("n1", plan::Cause::space, "x"));
    CHECK_THAT(page_of(report_of_site(events)), Contains(">11</text>") && !Contains(">9</text>"));
}

TEST_CASE("report: the command reads the files that it is told", "[report]") {
    fixtures::TempFolder folder;
    std::ofstream log(folder / "log");
    for (const Event& event : cold_step()) log << plan::json_line(event);
    log << "half a line";
    log.close();
    std::string command = cat(fixtures::built_program("berth-pull"), " report ");
    auto result = fixtures::run_command(cat(command, "--job 7 ", folder / "log"));
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains("longest: pulling on n2"));
    CHECK_THAT(result.output, Contains("1 line left out, since they are no events"));
    CHECK_THAT(result.output, !Contains("no events of job"));
    result = fixtures::run_command(cat(command, "--job 8 ", folder / "log"));
    CHECK_THAT(result.output, Contains(cat("berth: no events of job 8 in ", folder / "log", "; unless events.log is on "
                                           "a path that all nodes see, each node has its own")));
    result = fixtures::run_command(cat(command, "--html ", folder / "page.html", " ", folder / "log"));
    CHECK(result.status == 0);
    CHECK(std::filesystem::file_size(folder / "page.html") > 1000);
    result = fixtures::run_command(cat(command, "--site-log ", folder / "log"));
    CHECK_THAT(result.output, Contains("1 warm start, 1 cold"));
    result = fixtures::run_command(command);
    CHECK(result.status == exit_failure);
    CHECK_THAT(result.output, Contains("set events.log in /etc/berth/berth.conf"));
}
