#include "runtime/base/environment.hh"

#include <cstdlib>

#include "tests/catch.hh"

using namespace berth;

TEST_CASE("environment: a variable is found by its whole name, the first one of it", "[base]") {
    std::vector<std::string> list = {"AB=no", "A", "A=one=1", "A=two", "E=", "=x"};
    REQUIRE(variable(list, "A"));
    CHECK(std::string(variable(list, "A")) == "one=1");
    REQUIRE(variable(list, "E"));
    CHECK(*variable(list, "E") == '\0');
    CHECK_FALSE(variable(list, "B"));
    CHECK(value_in(list, "A") == "one=1");
    CHECK(value_in(list, "E").empty());
    CHECK(value_in(list, "X").empty());
    CHECK(value_in(environment_of_this_process(), "PATH") == ::getenv("PATH"));
}
