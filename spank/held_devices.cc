#include "spank/held_devices.hh"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/major.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/base/listing.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

/// In the class of memory devices (drivers/char/mem.c).
constexpr unsigned null_minor = 3, zero_minor = 5, full_minor = 7, random_minor = 8, urandom_minor = 9;
/// In the class of miscellaneous devices (linux/miscdevice.h).
constexpr unsigned fuse_minor = 229;
/// 128 to 135 are the other ends of these (linux/major.h); /dev/ptmx is of TTYAUX_MAJOR.
constexpr unsigned first_pty_major = UNIX98_PTY_MASTER_MAJOR, last_pty_major = UNIX98_PTY_SLAVE_MAJOR + 7;

enum class Seen { nothing, kept, held };

/// What a link of the kernel's leads to. The mask 0 asks for nothing in particular, with which no file system asks a
/// server: every one then gives what it knows, but for FUSE of another user's, which gives nothing. That takes no
/// device files (it is nodev); before Linux 5.10 it refuses even this.
Seen look_at(const std::string& link) {
    struct statx info {};
    if (statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &info) != 0)
        return errno == ENOENT || errno == ESRCH ? Seen::nothing : errno == EACCES ? Seen::kept : Seen::held;
    if ((info.stx_mask & STATX_TYPE) == 0) return Seen::kept;
    return may_go_along(info.stx_mode, makedev(info.stx_rdev_major, info.stx_rdev_minor)) ? Seen::kept : Seen::held;
}

struct Links {
    bool held = false;
    size_t count = 0;
};

Links look_at_all(const std::string& folder, size_t& links) {
    sys::Listing listing = sys::open_listing(folder);
    if (!listing) return {errno != ENOENT && errno != ESRCH};
    Links out;
    while (const dirent* entry = readdir(listing.get())) {
        if (entry->d_name[0] == '.') continue;
        if (links == 0) return {true, out.count};
        --links;
        ++out.count;
        if (look_at(cat(folder, '/', entry->d_name)) == Seen::held) return {true, out.count};
    }
    return out;
}

/// Threads mostly share their first one's descriptors.
bool has_same_files(pid_t process, pid_t thread) {
    return syscall(SYS_kcmp, process, thread, KCMP_FILES, 0UL, 0UL) == 0;
}

/// The state of a process whose first thread has ended is that of a process that has ended.
bool has_threads(const std::string& tasks) {
    sys::Listing listing = sys::open_listing(tasks);
    size_t count = 0;
    while (const dirent* entry = listing ? readdir(listing.get()) : nullptr)
        if (entry->d_name[0] != '.') ++count;
    return count > 1;
}

}  // namespace

bool may_go_along(mode_t mode, dev_t device) {
    unsigned high = major(device), low = minor(device);
    switch (mode & S_IFMT) {
        case S_IFREG:
        case S_IFDIR:
        case S_IFLNK:
        case S_IFSOCK:
        case S_IFIFO:
        case 0:  // an anonymous inode
            return true;
        case S_IFCHR:
            break;
        default:
            return false;
    }
    switch (high) {
        case MEM_MAJOR:
            return low == null_minor || low == zero_minor || low == full_minor || low == random_minor ||
                   low == urandom_minor;
        case MISC_MAJOR:
            return low == fuse_minor;
        case TTY_MAJOR:
        case TTYAUX_MAJOR:
            return true;
        default:
            return high >= first_pty_major && high <= last_pty_major;
    }
}

bool holds_devices(pid_t process, size_t& links) {
    std::string folder = cat("/proc/", process), tasks = folder + "/task";
    sys::Listing threads = sys::open_listing(tasks);
    if (!threads) return errno != ENOENT && errno != ESRCH;
    while (const dirent* entry = readdir(threads.get())) {
        uint64_t number = 0;
        if (!parse_number(entry->d_name, 1 << 30, number)) continue;
        auto thread = static_cast<pid_t>(number);
        if (thread != process && has_same_files(process, thread)) continue;
        if (look_at_all(cat(tasks, '/', thread, "/fd"), links).held) return true;
    }
    Links maps = look_at_all(folder + "/map_files", links);
    // Its program is mapped as long as its first thread is there. Without that nobody tells what is.
    return maps.held || (maps.count == 0 && has_threads(tasks));
}

}  // namespace berth::spank
