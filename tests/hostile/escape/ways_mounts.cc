// By mounts, devices and cgroups.
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "runtime/base/new_calls.hh"
#include "tests/hostile/escape/escape.hh"

namespace escape {

namespace {

Result mounts(const char* type) {
    std::string place = scratch() + "/" + type;
    mkdir(place.c_str(), 0755);
    if (mount("escape", place.c_str(), type, 0, nullptr) != 0) return refused();
    umount2(place.c_str(), MNT_DETACH);
    return got(std::string("a mount of ") + type);
}

Result mount_proc() { return mounts("proc"); }
Result mount_sys() { return mounts("sysfs"); }
Result mount_tmpfs() { return mounts("tmpfs"); }

Result mount_device() {
    std::string place = scratch() + "/disk";
    mkdir(place.c_str(), 0755);
    // Any block device: that it has no file system, or is in use, the kernel says after it has looked.
    for (const std::string& name : names_in("/sys/class/block")) {
        mount(("/dev/" + name).c_str(), place.c_str(), "ext4", MS_RDONLY, nullptr);
        if (errno != EPERM && errno != EACCES) return got("the kernel looked at " + name);
    }
    return refused();
}

/// CVE-2022-0492: a cgroup mount of one's own, whose release_agent root executes.
Result release_agent() {
    for (const std::string& name : names_in("/sys/fs/cgroup"))
        if (open(("/sys/fs/cgroup/" + name + "/release_agent").c_str(), O_WRONLY | O_CLOEXEC) >= 0)
            return got("release_agent of " + name);
    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWCGROUP);
    for (const char* type : {"cgroup2", "cgroup"})
        if (Result out = mounts(type); out.kind == Result::Kind::got) return out;
    return refused();
}

/// Own process in a group that others have for theirs.
Result other_cgroup() {
    std::vector<std::string> groups{"/sys/fs/cgroup", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified"};
    for (const std::string& name : names_in("/sys/fs/cgroup")) groups.push_back("/sys/fs/cgroup/" + name);
    int number = ENOENT;
    for (const std::string& group : groups) {
        int fd = open((group + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && write(fd, "0", 1) == 1) return got("membership in " + group);
        if (errno != ENOENT) number = errno;
        if (mkdir((group + "/escape").c_str(), 0755) == 0) {
            rmdir((group + "/escape").c_str());
            return got("a group below " + group);
        }
    }
    return refused(number);
}

Result make_device() {
    std::string path = scratch() + "/device";
    // The node's memory and its first disk, by their numbers.
    for (auto [type, device] : {std::pair{S_IFCHR, makedev(1, 11)}, std::pair{S_IFBLK, makedev(254, 0)},
                                std::pair{S_IFBLK, makedev(8, 0)}, std::pair{S_IFCHR, makedev(10, 229)}}) {
        unlink(path.c_str());
        if (mknod(path.c_str(), type | 0666, device) != 0) continue;
        // Where the making is only pretended, there is nothing to open.
        if (open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK) >= 0) return got("a device of its own");
        if (errno == ENXIO) return got("a device that the node lacks");
    }
    return refused();
}

/// Devices that are not for everybody.
Result device_files() {
    for (const std::string& name : names_in("/dev")) {
        struct stat st;
        std::string path = "/dev/" + name;
        if (stat(path.c_str(), &st) != 0 || (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))) continue;
        // null, zero, full, random, urandom, tty, ptmx and terminals (admin-guide/devices.txt of Linux). None is
        // opened: a watchdog would be armed by it.
        bool usual =
            S_ISCHR(st.st_mode) && ((major(st.st_rdev) == 1 && minor(st.st_rdev) != 11 && minor(st.st_rdev) > 2) ||
                                    (major(st.st_rdev) == 5 && minor(st.st_rdev) != 1) ||
                                    (major(st.st_rdev) >= 136 && major(st.st_rdev) <= 143));
        if (!usual && access(path.c_str(), R_OK) == 0) return got(path);
    }
    return refused();
}

/// A terminal of another process.
Result other_terminals() {
    int number = ENOENT;
    for (const std::string& name : names_in("/dev/pts")) {
        if (name == "ptmx") continue;
        if (open(("/dev/pts/" + name).c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) >= 0)
            return got("pts/" + name);
        number = errno;
    }
    return refused(number);
}

Result new_mount_calls() {
    // fsconfig's overflow was in legacy_parse_param: it is reached by a text of any file system without parameters.
    long fs = syscall(SYS_fsopen, "tmpfs", 0);
    if (fs >= 0) {
        syscall(SYS_fsconfig, fs, 1 /* FSCONFIG_SET_STRING */, "mode", "755", 0);
        return got("a file system to configure");
    }
    int number = errno;
    if (syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */) >= 0) return got("a copy of the mount of /");
    if (syscall(SYS_fspick, AT_FDCWD, "/", 0) >= 0) return got("the file system of /");
    unsigned long long attributes[4] = {};
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0x8000 /* AT_RECURSIVE */, attributes, sizeof attributes) == 0)
        return got("attributes of mounts");
    return refused(number);
}

/// The places of all mounts (proc(5), mountinfo), the last one first.
std::vector<std::string> places() {
    std::vector<std::string> out;
    std::istringstream lines(text_of("/proc/self/mountinfo"));
    for (std::string line, word; std::getline(lines, line);) {
        std::istringstream words(line);
        for (int i = 0; i < 5; ++i) words >> word;
        out.insert(out.begin(), word);
    }
    return out;
}

Result uncover() {
    for (const std::string& place : places())
        if (umount2(place.c_str(), MNT_DETACH) == 0) return got("what " + place + " covers");
    return refused();
}

Result remount() {
    for (const std::string& place : places())
        if (mount(nullptr, place.c_str(), nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0)
            return got(place + " without its flags");
    return refused();
}

Result pivot_back() {
    if (syscall(SYS_pivot_root, ".", ".") == 0) {
        umount2(".", MNT_DETACH);
        return got("another root");
    }
    // The kernel looks at the directories before it looks at rights only in a namespace of one's own.
    return taken(-1);
}

Result fuse() {
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) return refused(errno == ENOENT ? EPERM : errno);
    return got("a server's end of a FUSE mount");
}

/// CVE-2023-2640: attributes that a mount of overlay in a user namespace copies without looking.
Result overlay() {
    std::string base = scratch();
    for (const char* name : {"/lower", "/upper", "/work", "/merged"}) mkdir((base + name).c_str(), 0755);
    unshare(CLONE_NEWUSER | CLONE_NEWNS);
    std::string options = "lowerdir=" + base + "/lower,upperdir=" + base + "/upper,workdir=" + base + "/work";
    if (mount("overlay", (base + "/merged").c_str(), "overlay", 0, options.c_str()) != 0) return refused();
    umount2((base + "/merged").c_str(), MNT_DETACH);
    return got("an overlay");
}

}  // namespace

std::vector<Way> ways_by_mounts() {
    return {
        {"mount-proc", "a new /proc, in which nothing is covered", "mount_namespaces(7), mount_too_revealing",
         Control::root, mount_proc},
        {"mount-sysfs", "a new /sys to write to", "the same", Control::root, mount_sys},
        {"mount-tmpfs", "a tmpfs over anything", "the plainest mount", Control::root, mount_tmpfs},
        {"mount-disk", "the node's disk", "privileged containers", Control::root, mount_device},
        {"new-mount-calls", "fsopen, fsconfig, open_tree, fspick, mount_setattr", "CVE-2022-0185", Control::root,
         new_mount_calls},
        {"release-agent", "a cgroup mount and its release_agent", "CVE-2022-0492", Control::root, release_agent},
        {"other-cgroup", "membership in another cgroup, or a group of its own", "limits of a job evaded", Control::root,
         other_cgroup},
        {"mknod", "a device file of its own: memory, disks, FUSE", "CAP_MKNOD, the reason of nodev", Control::root,
         make_device},
        {"device-files", "any device in /dev that is not for everybody", "privileged containers", Control::root,
         device_files},
        {"terminals", "terminals of others in /dev/pts", "a shared devpts, CVE-2016-2779", Control::user,
         other_terminals},
        {"umount", "what mounts cover", "locked mounts of mount_namespaces(7), CVE-2014-7975", Control::root, uncover},
        {"remount", "mounts without read-only, nodev and nosuid", "CVE-2014-5206, CVE-2014-5207", Control::root,
         remount},
        {"pivot-root", "the root that was there before", "CVE-2014-7970", Control::root, pivot_back},
        {"fuse", "a file server of its own", "CVE-2023-0386's first step", Control::root, fuse},
        {"overlay", "an overlay in a user namespace of its own", "CVE-2023-2640, CVE-2023-0386, CVE-2021-3493",
         Control::root, overlay},
    };
}

}  // namespace escape
