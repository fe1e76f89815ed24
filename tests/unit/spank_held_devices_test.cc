// What may go along to another job, by the kind of a file and the number of a device.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "spank/held_devices.hh"
#include "tests/catch.hh"

using berth::spank::may_go_along;

namespace {

bool character(unsigned high, unsigned low) { return may_go_along(S_IFCHR | 0666, makedev(high, low)); }

}  // namespace

TEST_CASE("held devices: files, sockets, pipes and anonymous inodes go along, whatever number they have", "[spank]") {
    constexpr mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFSOCK, S_IFIFO, 0};
    for (mode_t kind : kinds)
        for (dev_t device : {dev_t(0), makedev(195, 0)}) CHECK(may_go_along(kind | 0600, device));
}

TEST_CASE("held devices: of device files those go along that everybody has, and no other", "[spank]") {
    // null, zero, full, random, urandom
    for (unsigned low : {3, 5, 7, 8, 9}) CHECK(character(1, low));
    CHECK(character(10, 229));
    // a console, /dev/tty, /dev/ptmx, a terminal of each of eight thousand
    CHECK(character(4, 1));
    CHECK(character(5, 0));
    CHECK(character(5, 2));
    CHECK(character(128, 0));
    CHECK(character(136, 0));
    CHECK(character(143, 255));

    // mem, port, kmsg; tun, kvm, vhost-net
    for (unsigned low : {1, 4, 11}) CHECK_FALSE(character(1, low));
    for (unsigned low : {200, 232, 238}) CHECK_FALSE(character(10, low));
    // GPUs of NVIDIA, /dev/nvidiactl, DRI, KFD, InfiniBand, and what gets its number at boot
    CHECK_FALSE(character(195, 0));
    CHECK_FALSE(character(195, 255));
    CHECK_FALSE(character(226, 128));
    CHECK_FALSE(character(231, 192));
    for (unsigned high : {127, 144, 234, 240, 511}) CHECK_FALSE(character(high, 0));
    for (unsigned high : {1, 7, 8, 259}) CHECK_FALSE(may_go_along(S_IFBLK | 0660, makedev(high, 3)));
}
