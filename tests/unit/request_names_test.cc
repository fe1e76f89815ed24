#include "runtime/base/error.hh"
#include "runtime/request/names.hh"
#include "runtime/request/values.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

TEST_CASE("hostile row 56: container names have no path, no line and nothing that a terminal acts on", "[request]") {
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

TEST_CASE("environment names of --container-env", "[request]") {
    CHECK(parse_env_names("FOO") == std::vector<std::string>{"FOO"});
    CHECK(parse_env_names("FOO,_b1,C") == std::vector<std::string>{"FOO", "_b1", "C"});
    for (const char* bad : {"", "A,,B", "A=1", "1A", "A B", "A-B", "A,"}) CHECK_THROWS_AS(parse_env_names(bad), Error);
}

TEST_CASE("hostile row 63: a working directory below /proc is refused", "[request]") {
    CHECK(parse_workdir("/data/x/../y") == "/data/y");
    CHECK(parse_workdir("data/x") == "/data/x");
    CHECK(parse_workdir("../") == "/");
    for (const char* bad : {"", "proc/1", "/proc/self/fd/3", "/proc", "/x/../proc/1/root"})
        CHECK_THROWS_AS(parse_workdir(bad), Error);
}

TEST_CASE("booleans of the environment and nothing else", "[request]") {
    for (const char* yes : {"1", "true", "YES", "y", "On"}) CHECK(parse_bool(yes, "X"));
    for (const char* no : {"0", "False", "no", "N", "off"}) CHECK_FALSE(parse_bool(no, "X"));
    for (const char* bad : {"", "2", "maybe", "yes "}) CHECK_THROWS_AS(parse_bool(bad, "X"), Error);
}

TEST_CASE("names: where a node saves, and the names of steps", "[names]") {
    Signs signs;
    signs.home = "/home/al%j";
    signs.job = "7";
    signs.node = "n2";
    signs.node_index = "1";
    CHECK(expanded_save_path("a.sqsh", signs) == "a.sqsh");
    CHECK(expanded_save_path("/x/a.sqsh", signs) == "/x/a.sqsh");
    CHECK(expanded_save_path("%N/a-%N.sqsh", signs) == "n2/a-n2.sqsh");
    CHECK(expanded_save_path("100%%N%%.sqsh", signs) == "100%N%.sqsh");
    CHECK(expanded_save_path("~/%j-%n.sqsh", signs) == "/home/al%j/7-1.sqsh");
    for (const char* one : {"%N/a", "a%n", "%%%N"}) CHECK(saves_on_each_node(one));
    for (const char* one : {"a", "", "%%N", "%j", "a%"}) CHECK_FALSE(saves_on_each_node(one));
    signs.job = std::string(1024, 'j');
    CHECK_THROWS_AS(expanded_save_path("a/%j/%j/%j/%j", signs), Error);
    for (const char* name : {"1.0", "12.345", "7.batch", "7.interactive"}) CHECK(is_step_name(name));
    for (const char* name : {"", "1", "1.", ".0", "a.0", "1.a", "1.0.0", "1.batchx"}) CHECK_FALSE(is_step_name(name));
}
