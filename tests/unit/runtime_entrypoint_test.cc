#include <catch2/catch.hpp>

#include "runtime/entrypoint.hh"

using namespace berth;
using Changes = std::vector<plan::EnvironmentChange>;

TEST_CASE("entrypoint: what it changed, without what shells keep for themselves", "[entrypoint]") {
    CHECK(differences({"A=1", "B=2", "PWD=/", "OLD=x"}, {"A=1", "B=3", "NEW=a=b", "PWD=/srv", "_=/bin/sh", "SHLVL=1", "broken", "=odd"}) ==
          Changes{{"B", "3"}, {"NEW", "a=b"}, {"OLD", std::nullopt}});
    CHECK(differences({"A=1"}, {"A=1"}).empty());
}

TEST_CASE("entrypoint: its changes go over the image's, but not over what the job keeps", "[entrypoint]") {
    Changes image = {{"PATH", "/bin"}, {"LANG", std::nullopt}}, entrypoint = {{"PATH", "/e:/bin"}, {"KEPT", "e"}, {"MISSING", "e"}};
    CHECK(with_entrypoint(image, entrypoint, {"KEPT", "MISSING"}, {"KEPT=job"}) == Changes{{"LANG", std::nullopt}, {"PATH", "/e:/bin"}, {"MISSING", "e"}});
    CHECK(with_entrypoint(image, {}, {}, {}) == image);
}
