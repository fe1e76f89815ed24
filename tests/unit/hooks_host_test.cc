// The hooks' view of a node.
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/catch.hh"
#include "tests/fixtures/fake_host.hh"

using namespace berth;

TEST_CASE("host: where a path leads to, and what cannot be looked up leads nowhere", "[hooks]") {
    fixtures::FakeHost host;
    host.file("/usr/lib/libx.so.1.2", "x");
    REQUIRE(::symlink("libx.so.1.2", (host.path() + "/usr/lib/libx.so.1").c_str()) == 0);
    REQUIRE(::symlink("usr/lib", (host.path() + "/lib").c_str()) == 0);
    CHECK(host.resolved("/usr/lib/libx.so.1.2") == "/usr/lib/libx.so.1.2");
    CHECK(host.resolved("/usr/lib/libx.so.1") == "/usr/lib/libx.so.1.2");
    CHECK(host.resolved("/lib//../lib/libx.so.1") == "/usr/lib/libx.so.1.2");
    CHECK(host.resolved("/lib") == "/usr/lib");
    CHECK_FALSE(host.resolved("/usr/lib/none"));
    CHECK_FALSE(host.resolved("/usr/lib/libx.so.1.2/below"));
    // Other refusals than that it is missing, whoever runs this.
    CHECK_FALSE(host.resolved("/usr/" + std::string(300, 'n')));
    CHECK_FALSE(host.resolved(std::string(5000, '/') + "usr"));
    if (::geteuid() == 0) return;
    REQUIRE(::chmod((host.path() + "/usr/lib").c_str(), 0) == 0);
    CHECK_FALSE(host.resolved("/usr/lib/libx.so.1.2"));
    CHECK(::chmod((host.path() + "/usr/lib").c_str(), 0755) == 0);
}
