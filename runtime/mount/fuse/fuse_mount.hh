// The FUSE mount of an image, whoever serves it.
#pragma once
#include <sys/types.h>

#include "runtime/base/fd.hh"

namespace berth::mount {

/// A new connection to the kernel. Throws Error that names what stands in the way of /dev/fuse.
Fd open_fuse_device();

/// Mounts what is served over `device` on the directory `mount_point` (O_PATH), read-only. `uid` and `gid`: the
/// mounter, as numbered in the present user namespace. Call with CAP_SYS_ADMIN in the user namespace that owns the
/// mount namespace. Throws SysError.
void attach_fuse(int device, uid_t uid, gid_t gid, int mount_point);

}  // namespace berth::mount
