// The system calls that change which namespaces, mounts and root a process has; thin wrappers that throw SysError.
#pragma once
#include <string>

#include "runtime/base/fd.hh"

namespace berth::sys {

/// unshare(2) of CLONE_* flags. Returns 0 or the errno value, because its meaning depends on the kernel's settings (see
/// sandbox/).
int unshare(int flags);

/// setns(2) of one namespace descriptor.
void enter_namespace(int fd, int type, const std::string& what);

/// The same of a container's user namespace. Out of another user namespace than the machine's first one only those are
/// to be entered that were made in it: Slurm can give each job one (CLONE_NEWUSER), and then the Error says so.
void enter_user_namespace(int fd);

/// The user namespace in which that of the descriptor was made; empty at the caller's own one, and outside of it
/// (ioctl_nsfs(2), NS_GET_PARENT).
Fd parent_user_namespace(int fd);

/// Makes the loopback interface of the calling thread's network namespace work. Needs CAP_NET_ADMIN there. Throws
/// SysError.
void raise_loopback();

/// Throws the Error of an owner of a user namespace whose first mount has failed with `number`: the kernel's own rules
/// allow it, so that EACCES and EPERM are somebody else's.
[[noreturn]] void throw_forbidden_mount(const std::string& doing, int number);

/// Cuts every mount of this mount namespace off from the host's: nothing propagates in either direction.
void make_mounts_private();

/// Makes the mount `root` the root directory and detaches everything that was mounted before.
void change_root(int root);

/// Detaches the topmost mount that `fd` (O_PATH) is the root of. Needs /proc of the present root.
void unmount(int fd, const std::string& what);

/// True when `fd` is the root of a mount.
bool is_mount_root(int fd, const std::string& what);

}  // namespace berth::sys
