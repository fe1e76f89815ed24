#include <catch2/catch.hpp>

#include "runtime/mount/operations.hh"
#include "runtime/mount/server.hh"

using namespace berth::mount;

TEST_CASE("threads of the file server", "[mount]") {
    CHECK(server_threads(0, 1) == 1);
    CHECK(server_threads(0, 4) == 4);
    CHECK(server_threads(0, 256) == 8);
    CHECK(server_threads(0, 0) == 1);
    CHECK(server_threads(3, 256) == 3);
    CHECK(server_threads(16, 1) == 16);
}

TEST_CASE("xattrs that the file server shows", "[mount]") {
    CHECK(serves_xattr("user.colour"));
    CHECK(serves_xattr("user.overlayed"));
    CHECK_FALSE(serves_xattr("user.overlay.opaque"));
    CHECK_FALSE(serves_xattr("trusted.overlay.opaque"));
    CHECK_FALSE(serves_xattr("security.capability"));
    CHECK_FALSE(serves_xattr("system.posix_acl_access"));
    CHECK_FALSE(serves_xattr(""));
}
