#include "runtime/container/entrypoint_report.hh"

#include "tests/catch.hh"

using namespace berth;
using Changes = std::vector<plan::EnvironmentChange>;

TEST_CASE("entrypoint: what it changed, without what shells keep for themselves", "[entrypoint]") {
    CHECK(differences({"A=1", "B=2", "PWD=/", "OLD=x"},
                      {"A=1", "B=3", "NEW=a=b", "PWD=/srv", "_=/bin/sh", "SHLVL=1", "broken", "=odd"}) ==
          Changes{{"B", "3"}, {"NEW", "a=b"}, {"OLD", std::nullopt}});
    CHECK(differences({"A=1"}, {"A=1"}).empty());
}

TEST_CASE("entrypoint: a variable that is there twice stays, with its last value", "[entrypoint]") {
    CHECK(differences({"A=1", "A=2", "B=1"}, {"A=1", "B=1"}) == Changes{{"A", "1"}});
    CHECK(differences({"A=1", "A=2"}, {"A=1", "A=2"}).empty());
    CHECK(differences({"A=1", "A=2"}, {}) == Changes{{"A", std::nullopt}});
}

TEST_CASE("entrypoint: its process is a number and the line's end, and nothing else", "[entrypoint]") {
    CHECK(reported_process("4711\n") == 4711);
    for (const char* text : {"", "\n", "4", "-1\n", "4711 \n", "2147483648\n", "4711\n\n", "0x1\n"}) {
        INFO(text);
        CHECK_FALSE(reported_process(text));
    }
}

TEST_CASE("entrypoint: its log is lines fit for a terminal, long ones in parts, and none after a MiB", "[entrypoint]") {
    EntrypointLog log;
    std::vector<std::string> lines;
    auto show = [&](const std::string& line) { lines.push_back(line); };
    log.take("one\n\ntwo\x1b[31", show);
    CHECK(lines == std::vector<std::string>{"one", ""});
    CHECK(log.last() == "two\\x1b[31");
    log.take("m\nrest", show);
    CHECK(lines.back() == "two\\x1b[31m");
    log.take("\n", {});
    CHECK(log.last() == "rest");

    lines.clear();
    size_t taken = 18;
    for (std::string part(4096, 'x'); taken < 80 << 10; taken += part.size()) log.take(part, show);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].size() < 5000);
    for (std::string part = std::string(4095, 'y') + '\n'; taken < 2 << 20; taken += part.size()) log.take(part, show);
    CHECK((lines.size() > 200 && lines.size() <= 257));
}
