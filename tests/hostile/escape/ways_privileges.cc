// By rights that a process should not get: of files, of namespaces, of other users.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>

#include "tests/hostile/escape/escape.hh"

namespace escape {

namespace {

/// True when executing `path` gives rights.
bool gains(const std::string& path) {
    pid_t child = fork();
    if (child == 0) {
        execl(path.c_str(), "escape", "gained", nullptr);
        _exit(9);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Root has all rights without any file. Where the calls are only pretended, nothing changes.
void become_nobody() {
    constexpr uid_t nobody = 65534;
    if (geteuid() == 0 && setresgid(nobody, nobody, nobody) == 0 && setresuid(nobody, nobody, nobody) != 0) _exit(9);
}

Result setuid_file() {
    const char* path = getenv("ESCAPE_SETUID");
    std::string file = path ? path : "/bin/escape-setuid";
    if (access(file.c_str(), X_OK) != 0) return {Result::Kind::absent, "no file " + file};
    become_nobody();
    return gains(file) ? got("another user's rights") : refused(EPERM);
}

/// A copy of this program in a place to write to.
std::string copy_of_itself() {
    std::string path = scratch() + "/copy";
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
        to = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    char buffer[1 << 16];
    for (ssize_t size; to >= 0 && (size = read(from, buffer, sizeof buffer)) > 0;)
        if (write(to, buffer, static_cast<size_t>(size)) != size) break;
    close(to);
    close(from);
    chmod(scratch().c_str(), 0755);
    chmod(path.c_str(), 0755);
    return path;
}

/// Struct vfs_cap_data (linux/capability.h): CAP_SYS_ADMIN, effective.
Result file_capabilities() {
    std::string path = copy_of_itself();
    unsigned data[5] = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, 1U << CAP_SYS_ADMIN};
    if (setxattr(path.c_str(), "security.capability", data, sizeof data, 0) != 0) return refused();
    become_nobody();
    return gains(path) ? got("capabilities of a file") : refused(EPERM);
}

Result raise_capabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2] = {}, now[2] = {};
    sets[0].effective = sets[0].permitted = 1U << CAP_SYS_ADMIN;
    syscall(SYS_capset, &header, sets);
    // Where the call is only pretended, nothing has changed.
    syscall(SYS_capget, &header, now);
    return (now[0].effective >> CAP_SYS_ADMIN & 1) != 0 ? got("CAP_SYS_ADMIN") : refused(EPERM);
}

Result other_users() {
    gid_t groups[] = {0, 42, 6};
    uid_t before = getuid();
    uid_t wanted = before == 0 ? 12345 : 0;
    // shadow and disk are 42 and 6 of Debian.
    if (setgroups(3, groups) == 0) {
        gid_t now[64];
        for (int i = getgroups(64, now); i-- > 0;)
            if (now[i] == 42) return got("another group");
    }
    if (setresuid(wanted, wanted, wanted) == 0 && getuid() == wanted) return got("another user");
    return refused(EPERM);
}

Result nested_namespace() {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) return got("all capabilities in a user namespace");
    int number = errno;
    if (unshare(CLONE_NEWUSER) == 0) return got("a user namespace");
    for (int flags : {CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET}) {
        long child = syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
        if (child == 0) _exit(0);
        if (child > 0) return got("a child in a user namespace");
    }
    unsigned long long arguments[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long child = syscall(SYS_clone3, arguments, 64);
    if (child == 0) _exit(0);
    return child > 0 ? got("a child in a user namespace, by clone3") : refused(number);
}

/// A system call by its 32-bit number.
long call_32(long number, long first = 0, long second = 0, long third = 0, long fourth = 0) {
#ifdef __x86_64__
    long result = -ENOSYS;
    asm volatile("int $0x80"
                 : "=a"(result)
                 : "a"(number), "b"(first), "c"(second), "d"(third), "S"(fourth)
                 : "memory", "r8", "r9", "r10", "r11");
#else
    long result = number + first + second + third + fourth > 0 ? -ENOSYS : -ENOSYS;
#endif
    errno = result < 0 ? static_cast<int>(-result) : 0;
    return result < 0 ? -1 : result;
}

Result mount_32() {
    // asm/unistd_32.h: unshare is 310, mount 21; the flags are MS_REC and MS_PRIVATE.
    Result out = taken(call_32(310, CLONE_NEWUSER));
    if (out.kind == Result::Kind::got) return out;
    return taken(call_32(21, 0, 0, 0, 0x44000));
}

Result namespace_x32() {
    constexpr long x32 = 0x40000000;  // __X32_SYSCALL_BIT of asm/unistd.h
    Result out = taken(syscall(x32 | SYS_unshare, CLONE_NEWNS));
    return out.kind == Result::Kind::got ? out : taken(syscall(x32 | SYS_mount, nullptr, nullptr, nullptr, 0, nullptr));
}

/// Types a character into the terminal that it has as its own, and reads it as if a person had.
Result types(unsigned long request) {
    int leader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (leader < 0 || grantpt(leader) != 0 || unlockpt(leader) != 0) return refused();
    setsid();
    int terminal = open(ptsname(leader), O_RDWR | O_CLOEXEC);
    if (terminal < 0) return refused();
    char typed = 'x', line = '\n', seen[8] = {};
    if (ioctl(terminal, request, &typed) != 0 || ioctl(terminal, request, &line) != 0) return refused();
    return read(terminal, seen, sizeof seen) > 0 && seen[0] == 'x' ? got("a key that nobody pressed") : refused(EIO);
}

Result type_keys() { return types(TIOCSTI); }
// The kernel takes the lower half of the number; a filter that compares all of it is passed.
Result type_keys_by_high_bits() {
    int leader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (leader < 0 || grantpt(leader) != 0 || unlockpt(leader) != 0) return refused();
    setsid();
    int terminal = open(ptsname(leader), O_RDWR | O_CLOEXEC);
    char typed = 'x';
    return syscall(SYS_ioctl, terminal, TIOCSTI | 1UL << 32, &typed) == 0 ? got("a key that nobody pressed")
                                                                          : refused();
}

}  // namespace

std::vector<Way> ways_by_privileges() {
    return {
        {"setuid", "a file of the image that is root's and setuid", "setuid(2), the reason of nosuid", Control::root,
         setuid_file},
        {"file-capabilities", "a file with all capabilities", "CVE-2023-2640, CVE-2021-3493", Control::root,
         file_capabilities},
        {"capset", "capabilities by capset", "CVE-2022-24769 (inheritable capabilities)", Control::root,
         raise_capabilities},
        {"other-user", "setresuid and setgroups", "CVE-2014-8989, CVE-2022-36109", Control::root, other_users},
        {"nested-namespace", "a user namespace of its own, by unshare, clone and clone3",
         "the first step of CVE-2022-0185 and many others", Control::user, nested_namespace},
        {"32-bit-calls", "unshare and mount by int 0x80", "filters that know one architecture only", Control::root,
         mount_32},
        {"x32-calls", "unshare and mount by the x32 numbers", "the same", Control::root, namespace_x32},
        {"tiocsti", "a key typed into the terminal", "CVE-2017-5226, CVE-2016-2779", Control::root, type_keys},
        {"tiocsti-high-bits", "the same with bits that the kernel ignores", "CVE-2019-10063, CVE-2019-7303",
         Control::root, type_keys_by_high_bits},
    };
}

}  // namespace escape
