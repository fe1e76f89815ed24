// What the tests of unpacked files share: an image, and what they need of the machine.
#pragma once
#include <fcntl.h>
#include <sys/statvfs.h>

#include <string>

#include "runtime/base/sys.hh"
#include "runtime/store/hot_writer.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/named_support.hh"

namespace berth::kernel_test::hot {

inline constexpr int small_files = 200;

inline std::string content(int number) {
    return cat("content of file ", number, "\n");
}

inline void fill(squash::LayerWriter& writer) {
    for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
    writer.add_directory("usr", {});
    writer.add_directory("many", {.mode = 0751, .mtime = 1'000'000, .xattrs = {}});
    writer.add_directory("many/sticky", {.mode = 01777, .mtime = 3'000'000, .xattrs = {}});
    for (int number = 0; number < small_files; ++number) {
        uint32_t mode = number % 3 == 0 ? 0755 : number % 3 == 1 ? 0640 : 0444;
        writer.begin_file(cat("many/", number % 2 == 0 ? "" : "sticky/", "f", number),
                          {.mode = mode, .mtime = 2'000'000 + number, .xattrs = {}});
        writer.append(content(number));
        writer.end_file();
    }
    writer.begin_file("many/setuid", {.mode = 04755, .xattrs = {}});
    writer.append("x");
    writer.end_file();
    writer.add_hardlink("many/second", "many/f0");
    writer.add_symlink("many/link", {.mode = 0777, .mtime = 6'000'000, .xattrs = {}}, "f2");
    for (const char* name : {"pack", "pack/sub"}) writer.add_directory(name, {.mode = 0755, .mtime = 7, .xattrs = {}});
    for (const char* name : {"pack/read", "pack/rest", "pack/sub/deep"}) {
        writer.begin_file(name, {.mode = 0644, .mtime = 8, .xattrs = {}});
        writer.append(name);
        writer.end_file();
    }
    writer.add_symlink("pack/away", {.mode = 0777, .mtime = 9, .xattrs = {}}, "/usr/nowhere");
    writer.begin_file("many/large", {.mode = 0644, .mtime = 5'000'000, .xattrs = {}});
    for (int line = 0; line < 200'000; ++line) writer.append(cat("line ", line, "\n"));
    writer.end_file();
}

inline std::string place_problem() {
    Folder folder;
    Fd place = sys::open_file(folder / "", O_RDONLY | O_DIRECTORY);
    struct statvfs fs {};
    if (::fstatvfs(place.get(), &fs) == 0 && fs.f_bavail < fs.f_blocks / 5) return "less than a fifth of /tmp is free";
    return store::can_keep_hot(place.get()) ? "" : "/tmp is no ext4, xfs or btrfs";
}

}  // namespace berth::kernel_test::hot

#define NEED_HOT()     \
    NEED_CONTAINERS(); \
    NEED(berth::kernel_test::hot::place_problem())
