#include "runtime/base/namespaces.hh"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/old_mounts.hh"
#include "runtime/base/selinux.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/common_interface_defs.h>
#endif

namespace berth::sys {

namespace {

#ifdef __SANITIZE_THREAD__
size_t threads_here() {
    return list_directory(open_file("/proc/self/task", O_RDONLY | O_DIRECTORY).get(), "threads").size();
}

/// The kernel gives no user namespace to a process with threads, of which the sanitizer has one of its own.
void be_alone(int flags) {
    if ((flags & CLONE_NEWUSER) == 0 || threads_here() == 1) return;
    __sanitizer_sandbox_on_notify(nullptr);
    for (int i = 0; i < 1000 && threads_here() > 1; ++i) ::usleep(1000);
}
#else
void be_alone(int) {}
#endif

/// Its map says nothing: Slurm maps all users to themselves, as they are in the first one.
bool is_in_first_user_namespace() {
    constexpr ino_t its_number = 0xeffffffd;  // PROC_USER_INIT_INO; USER_NS_INIT_INO of Linux 6.18's nsfs.h
    struct stat own {};
    return ::stat("/proc/self/ns/user", &own) == 0 && own.st_ino == its_number;
}

}  // namespace

int unshare(int flags) {
    be_alone(flags);
    return ::unshare(flags) == 0 ? 0 : errno;
}

void enter_namespace(int fd, int type, const std::string& what) {
    be_alone(type);
    if (::setns(fd, type) != 0) throw SysError(cat("joining the ", what));
}

void enter_user_namespace(int fd) {
    be_alone(CLONE_NEWUSER);
    if (::setns(fd, CLONE_NEWUSER) == 0) return;
    if (errno != EPERM || is_in_first_user_namespace()) throw SysError("joining the container's user namespace");
    throw Error(
        "joining the container's user namespace: Slurm gives each job a user namespace of its own (CLONE_NEWUSER in "
        "namespace.yaml), out of which no container of another job can be entered; give the container another name in "
        "each job, or let the site set defaults.container_scope = \"job\" or take CLONE_NEWUSER out");
}

Fd parent_user_namespace(int fd) { return Fd(::ioctl(fd, NS_GET_PARENT)); }

void raise_loopback() {
    Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    if (!socket || ::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0)
        throw SysError("looking at the loopback interface of the container");
    request.ifr_flags |= IFF_UP;
    if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0)
        throw SysError("raising the loopback interface of the container");
}

void make_mounts_private() {
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        throw_forbidden_mount("making the mounts of the new namespace private", errno);
}

void throw_forbidden_mount(const std::string& doing, int number) {
    if (number != EACCES && number != EPERM) throw SysError(doing, number);
    std::string context = number == EACCES ? selinux_context() : "";
    if (!context.empty()) throw Error(cat(doing, ": ", reason(number), selinux_hint("mounts", context)));
    throw Error(cat(doing, ": ", reason(number), "; a security module (AppArmor, SELinux) or a seccomp filter forbids "
                                                 "mounts to berth: the kernel's log has which"));
}

namespace {

/// A node that runs from its initramfs has a root that cannot be pivoted away: the new root is laid over it instead, as
/// switch_root does.
void cover_root(int root) {
    Fd old = open_file("/", O_PATH | O_DIRECTORY);
    move_mount_to(root, old.get(), "the container's root over the root of the node");
    if (::fchdir(root) != 0 || ::chroot(".") != 0) throw SysError("entering the container's root");
}

}  // namespace

void change_root(int root) {
    if (::fchdir(root) != 0) throw SysError("entering the container's root");
    if (syscall(SYS_pivot_root, ".", ".") == 0) {
        // The old root is now stacked on the new one, and "." still leads to it.
        if (::umount2(".", MNT_DETACH) != 0) throw SysError("detaching the node's root");
    } else if (errno == EINVAL) {
        cover_root(root);
    } else {
        throw SysError("changing to the container's root");
    }
    if (::chdir("/") != 0) throw SysError("entering the container's root");
}

void unmount(int fd, const std::string& what) {
    if (::umount2(cat("/proc/self/fd/", fd).c_str(), MNT_DETACH) != 0) throw SysError(cat("unmounting ", what));
}

bool is_mount_root(int fd, const std::string& what) {
    struct statx st {};
    if (::statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) != 0)
        throw SysError(cat("examining ", what));
    if ((st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0) return old::is_mount_root(fd, what);
    return st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

}  // namespace berth::sys
