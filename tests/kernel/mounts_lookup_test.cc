// Looking up paths in a root, by the newer system calls and without them.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/old_lookup.hh"
#include "runtime/base/old_mounts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

TEST_CASE("the root of a mount is told from what is below it, by either way", "[kernel][mounts]") {
    Folder host;
    host.file("a b", "");
    for (const auto& [path, root] : {std::pair<std::string, bool>{"/proc", true},
                                     {"/proc/self", false},
                                     {"/dev/pts", true},
                                     {host / "a b", false}}) {
        Fd fd = sys::open_file(path, O_PATH);
        INFO(path);
        CHECK(sys::is_mount_root(fd.get(), path) == root);
        CHECK(sys::old::is_mount_root(fd.get(), path) == root);
    }
}

// Of the calls that it compares with, an old kernel has none: not with [mounts], which are tried without them too.
TEST_CASE("looking up in a root part by part ends where openat2 does", "[kernel][lookup]") {
    Folder host;
    for (const char* name : {"root", "root/d", "root/d/e", "out"}) host.directory(name);
    host.file("root/d/f", "f");
    for (const auto& [name, target] : {std::pair<const char*, const char*>{"up", "../../../../d/f"},
                                       {"abs", "/d/f"},
                                       {"dir", "d"},
                                       {"dangling", "no/where"},
                                       {"loop", "loop"},
                                       {"slash", "d/f/"},
                                       {"d/back", "../dir/f"}})
        REQUIRE(::symlink(target, (host / "root/" + name).c_str()) == 0);
    Fd root = sys::open_file(host / "root", O_PATH | O_DIRECTORY);
    auto told = [&](int fd) {
        Fd owned(fd);
        return fd < 0 ? reason(errno) : cat(sys::stat_of(fd, "it").st_ino);
    };
    for (const char* path :
         {"/",         ".",      "",         "d",          "/d/f", "up",    "abs",        "dir", "dir/f", "dir/..",
          "../../d/f", "d/back", "dangling", "dangling/x", "loop", "d/f/x", "d/./e/../f", "no",  "d/",    "d/.",
          "d/f/",      "d/f/.",  "dir/",     "dir/.",      "abs/", "slash", "slash/..",   "no/"}) {
        for (int flags : {O_PATH, O_PATH | O_NOFOLLOW, O_PATH | O_DIRECTORY, O_RDONLY}) {
            for (bool beneath : {false, true}) {
                open_how how{};
                how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
                how.resolve = beneath ? RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS : RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
                INFO(path << " " << flags << " " << beneath);
                CHECK(told(sys::old::open_inside(root.get(), path, flags, 0, beneath)) ==
                      told(static_cast<int>(syscall(SYS_openat2, root.get(), path, &how, sizeof how))));
            }
        }
    }
}
