// Mounts by descriptor, as thin wrappers that return owners and throw SysError. Kernels that lack these calls get
// old_mounts.hh.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/mount_option.hh"

namespace berth::sys {

/// New mount API (Linux 5.2). Each returns a detached mount or context, or throws SysError.
Fd open_tree_clone(int fd, bool recursive, const std::string& what);
/// The same of the file at `path`, in one system call instead of three; empty when that fails, whatever the reason.
Fd clone_file(const std::string& path);
void move_mount_to(int mount, int target, const std::string& what);
/// Creates a file system context, sets the options, and makes a detached mount with
/// MOUNT_ATTR_*.
Fd new_mount(const std::string& type, const std::vector<MountOption>& options, unsigned attributes);
/// `propagation`: 0 leaves it, else MS_PRIVATE or MS_SLAVE.
void set_mount_attributes(int mount, uint64_t set, uint64_t clear, bool recursive, const std::string& what,
                          uint64_t propagation = 0);

}  // namespace berth::sys
