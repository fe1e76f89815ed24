// The FUSE mount of an image, whoever serves it.
#pragma once
#include <sys/types.h>

#include <string>

#include "runtime/base/fd.hh"

namespace berth::mount {

/// A new connection to the kernel. Throws Error that names what stands in the way of /dev/fuse.
Fd open_fuse_device();

/// What to do about an errno value of opening /dev/fuse, which has this mode, in this SELinux context (empty: none).
/// Starts with "; " or is empty. Pure.
std::string fuse_device_hint(int number, mode_t mode, const std::string& selinux_context);

/// Mounts what is served over `device` on the directory `mount_point` (O_PATH), read-only. `uid` and `gid`: the
/// mounter, as numbered in the present user namespace. Call with CAP_SYS_ADMIN in the user namespace that owns the
/// mount namespace. Throws SysError.
void attach_fuse(int device, uid_t uid, gid_t gid, int mount_point);

}  // namespace berth::mount
