#include "runtime/host/addresses.hh"

#include <sys/stat.h>

#include <fstream>
#include <utility>

#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

TEST_CASE("addresses: how fast a link is stands in its interface's file, where it is known", "[host]") {
    fixtures::TempFolder classes;
    CHECK(link_speed("127.0.0.1", classes.path()) == 0);
    REQUIRE(::mkdir((classes / "lo").c_str(), 0755) == 0);
    for (auto [text, speed] : {std::pair("25000\n", 25'000U), {"10\n", 10U}, {"-1\n", 0U}, {"", 0U}, {"?\n", 0U}}) {
        INFO(text);
        std::ofstream(classes / "lo/speed") << text;
        CHECK(link_speed("127.0.0.1", classes.path()) == speed);
        CHECK(link_speed("192.0.2.1", classes.path()) == 0);
    }
    CHECK(link_speed("127.0.0.1") == 0);  // the loopback interface has none
}
