#include "runtime/base/error.hh"
#include "runtime/request/environment_options.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;
using Catch::Contains;

namespace {

GivenOptions told(const std::vector<std::string>& environment, GivenOptions given = {}) {
    add_environment_options(given, environment);
    return given;
}

}  // namespace

TEST_CASE("environment options: both prefixes stand for the options", "[options]") {
    CHECK(told({"HOME=/root", "BERTH_CONTAINER_IMAGE=debian:12"}) == GivenOptions{{"container-image", "debian:12"}});
    CHECK(told({"PYXIS_CONTAINER_IMAGE=nvcr.io#nvidia/cuda", "PYXIS_CONTAINER_MOUNTS=/a:/b",
                "PYXIS_CONTAINER_WORKDIR=/w", "PYXIS_CONTAINER_ENV=A,B"}) ==
          GivenOptions{{"container-image", "nvcr.io#nvidia/cuda"},
                       {"container-mounts", "/a:/b"},
                       {"container-workdir", "/w"},
                       {"container-env", "A,B"}});
    CHECK(told({"PYXIS_CONTAINER_IMAGE=", "PYXIS_CONTAINER_IMAGES=a", "XPYXIS_CONTAINER_IMAGE=a",
                "PYXIS_CONTAINER_IMAGE"})
              .empty());
}

TEST_CASE("environment options: flags take words, and no means the opposite", "[options]") {
    auto [entry, option] =
        GENERATE(table<std::string, std::string>({{"CONTAINER_MOUNT_HOME=1", "container-mount-home"},
                                                  {"CONTAINER_MOUNT_HOME=no", "no-container-mount-home"},
                                                  {"CONTAINER_REMAP_ROOT=True", "container-remap-root"},
                                                  {"CONTAINER_REMAP_ROOT=0", "no-container-remap-root"},
                                                  {"CONTAINER_WRITABLE=y", "container-writable"},
                                                  {"CONTAINER_WRITABLE=n", "container-readonly"},
                                                  {"CONTAINER_READONLY=yes", "container-readonly"},
                                                  {"CONTAINER_READONLY=false", "container-writable"}}));
    CHECK(told({"BERTH_" + entry}) == GivenOptions{{option, ""}});
    CHECK(told({"PYXIS_" + entry}) == GivenOptions{{option, ""}});
}

TEST_CASE("environment options: what was given beats the variables", "[options]") {
    GivenOptions flags = {{"container-image", "a"}, {"container-readonly", ""}};
    CHECK(told({"PYXIS_CONTAINER_IMAGE=b", "PYXIS_CONTAINER_WRITABLE=1"}, flags) == flags);
    // Even what is wrong with a variable does not matter then.
    CHECK(told({"PYXIS_CONTAINER_IMAGE=///", "PYXIS_CONTAINER_WRITABLE=perhaps"}, flags) == flags);
}

TEST_CASE("environment options: mistakes name the variable", "[options]") {
    CHECK_THROWS_WITH(told({"PYXIS_CONTAINER_REMAP_ROOT=perhaps"}),
                      Contains("PYXIS_CONTAINER_REMAP_ROOT=perhaps") && Contains("true"));
    CHECK_THROWS_WITH(told({"BERTH_CONTAINER_MOUNTS=a:/b"}), Contains("BERTH_CONTAINER_MOUNTS: ") && Contains("^"));
    CHECK_THROWS_WITH(told({"BERTH_CONTAINER_IMAGE=a", "PYXIS_CONTAINER_IMAGE=b"}),
                      Contains("PYXIS_CONTAINER_IMAGE: contradicts") && Contains("--container-image=a"));
    CHECK_THROWS_WITH(told({"PYXIS_CONTAINER_WRITABLE=1", "PYXIS_CONTAINER_READONLY=1"}),
                      Contains("PYXIS_CONTAINER_READONLY: contradicts"));
    CHECK(told({"BERTH_CONTAINER_IMAGE=a", "PYXIS_CONTAINER_IMAGE=a"}) == GivenOptions{{"container-image", "a"}});
    CHECK(told({"PYXIS_CONTAINER_WRITABLE=1", "PYXIS_CONTAINER_READONLY=0"}) ==
          GivenOptions{{"container-writable", ""}});
}
