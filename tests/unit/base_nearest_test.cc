#include "runtime/base/nearest.hh"

#include "tests/catch.hh"

using namespace berth;

TEST_CASE("nearest: the word that was meant, or none", "[base][nearest]") {
    const std::vector<std::string> words = {"store.path", "store.pull", "share.ports", "helper"};
    CHECK(nearest("store.pul", words) == "store.pull");
    CHECK(nearest("stroe.path", words) == "store.path");
    CHECK(nearest("helpr", words) == "helper");
    CHECK(nearest("store.pull", words) == "store.pull");
    CHECK(nearest("", words).empty());
    CHECK(nearest("x", words).empty());
    CHECK(nearest("limits.age", words).empty());
    CHECK(nearest(std::string(1 << 20, 'a'), words).empty());
    CHECK(nearest("helper", {}).empty());
    CHECK(meant("helpr", words) == "; did you mean helper?");
    CHECK(meant("nothing of these", words).empty());
}
