// The flags behind a mount of --container-mounts: those that Enroot's fstab lines take, as far as a user's mount can
// have them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/mount_request.hh"

namespace berth::plan {

/// Does what `flag` says to `mount`; returns why it cannot, or an empty text.
/// For all: ro rw, exec noexec, nofail, x-create=auto|dir|file, and what changes nothing (nosuid, nodev, relatime,
/// ...). For binds: bind rbind and private, slave, shared, unbindable, each also with r before it. For a tmpfs: size=
/// mode= nr_inodes= huge=. squashfs, or sqsh as in CSCS' environment files: makes a bind a mount of the squashfs file
/// that its source is. To be given before the others, see take_kind().
std::string apply_mount_flag(MountRequest& mount, std::string_view flag);

/// Does what those of `flags` say that make the mount another kind, which decides what the others may say. Returns as
/// apply_mount_flag() does.
std::string take_kind(MountRequest& mount, const std::vector<std::string>& flags);

}  // namespace berth::plan
