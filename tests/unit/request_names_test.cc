#include "runtime/base/error.hh"
#include "runtime/request/names.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

TEST_CASE("hostile row 56: container names have no path, no line and nothing that a terminal acts on", "[plan]") {
    for (const char* name : {"a", "pytorch", "_x", "9", "a.b-c_d", "x..y", "a+b", "a@b", "x-", "a b", ".a", "...",
                             "m=7,n", "\xc3\xa9"})
        CHECK_NOTHROW(check_container_name(name));
    for (const std::string& name :
         {std::string("a/b"), std::string("/"), std::string("."), std::string(".."), std::string("a:b"),
          std::string("-x"),
          std::string(201, 'a'), std::string(), std::string("a\n"), std::string("a\x1b[2J"), std::string("a\x7f"),
          std::string("a\0b", 3), std::string("\xc3")}) {
        INFO(name);
        CHECK_THROWS_AS(check_container_name(name), Error);
    }
    CHECK_NOTHROW(check_container_name(std::string(200, 'a')));
}

TEST_CASE("environment names of --container-env", "[plan]") {
    CHECK(parse_env_names("FOO") == std::vector<std::string>{"FOO"});
    CHECK(parse_env_names("FOO,_b1,C") == std::vector<std::string>{"FOO", "_b1", "C"});
    for (const char* bad : {"", "A,,B", "A=1", "1A", "A B", "A-B", "A,"}) CHECK_THROWS_AS(parse_env_names(bad), Error);
}

TEST_CASE("hostile row 63: a working directory below /proc is refused", "[plan]") {
    CHECK(parse_workdir("/data/x/../y") == "/data/y");
    CHECK(parse_workdir("data/x") == "/data/x");
    CHECK(parse_workdir("../") == "/");
    for (const char* bad : {"", "proc/1", "/proc/self/fd/3", "/proc", "/x/../proc/1/root"})
        CHECK_THROWS_AS(parse_workdir(bad), Error);
}

TEST_CASE("booleans of the environment and nothing else", "[plan]") {
    for (const char* yes : {"1", "true", "YES", "y", "On"}) CHECK(parse_bool(yes, "X"));
    for (const char* no : {"0", "False", "no", "N", "off"}) CHECK_FALSE(parse_bool(no, "X"));
    for (const char* bad : {"", "2", "maybe", "yes "}) CHECK_THROWS_AS(parse_bool(bad, "X"), Error);
}

TEST_CASE("names: where a node saves, and the names of steps", "[names]") {
    CHECK(save_path_on("a.sqsh", "/w", "n1", 0) == "/w/a.sqsh");
    CHECK(save_path_on("/x/a.sqsh", "/w", "n1", 0) == "/x/a.sqsh");
    CHECK(save_path_on("/x/a.sqsh", "/w", "n2", 1) == "");
    CHECK(save_path_on("%N/a-%N.sqsh", "/w", "n2", 1) == "/w/n2/a-n2.sqsh");
    CHECK(save_path_on("100%%N%.sqsh", "/w", "n1", 0) == "/w/100%N%.sqsh");
    for (const char* name : {"1.0", "12.345", "7.batch", "7.interactive"}) CHECK(is_step_name(name));
    for (const char* name : {"", "1", "1.", ".0", "a.0", "1.a", "1.0.0", "1.batchx"}) CHECK_FALSE(is_step_name(name));
}
