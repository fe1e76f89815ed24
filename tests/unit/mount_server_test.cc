#include "runtime/mount/fuse/server.hh"
#include "runtime/squash/index/index.hh"
#include "tests/catch.hh"

using namespace berth::mount;

TEST_CASE("threads of the file server", "[mount]") {
    CHECK(server_threads(0, 1) == 2);
    CHECK(server_threads(0, 4) == 4);
    CHECK(server_threads(0, 256) == 8);
    CHECK(server_threads(0, 0) == 2);
    CHECK(server_threads(3, 256) == 3);
    CHECK(server_threads(1, 256) == 2);
    CHECK(server_threads(16, 1) == 16);
}

TEST_CASE("xattrs that the file server shows", "[mount]") {
    CHECK(berth::squash::shows_xattr("user.colour"));
    CHECK(berth::squash::shows_xattr("user.overlayed"));
    CHECK_FALSE(berth::squash::shows_xattr("user.overlay.opaque"));
    CHECK_FALSE(berth::squash::shows_xattr("trusted.overlay.opaque"));
    CHECK_FALSE(berth::squash::shows_xattr("security.capability"));
    CHECK_FALSE(berth::squash::shows_xattr("system.posix_acl_access"));
    CHECK_FALSE(berth::squash::shows_xattr(""));
}
