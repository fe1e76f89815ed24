#include <cerrno>

#include "runtime/mount/fuse/fuse_mount.hh"
#include "tests/catch.hh"

using namespace berth::mount;

TEST_CASE("what stands in the way of /dev/fuse is named", "[mount]") {
    using Catch::Contains;
    std::string context = "user_u:user_r:user_t:s0";
    CHECK_THAT(fuse_device_hint(EACCES, 0666, context), Contains("SELinux forbids it to " + context));
    CHECK_THAT(fuse_device_hint(EACCES, 0600, context), Contains("chmod 666 /dev/fuse"));
    CHECK_THAT(fuse_device_hint(EACCES, 0666, ""), Contains("chmod 666 /dev/fuse"));
    CHECK_THAT(fuse_device_hint(ENOENT, 0, context), Contains("modprobe fuse"));
    CHECK(fuse_device_hint(ENOMEM, 0666, context).empty());
}
