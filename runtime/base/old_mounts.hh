// Mounts by mount(2) alone, for kernels before 5.12 (and others that lack its newer calls): used by mounts.hh
// and namespaces.hh, which choose.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/mount_option.hh"

namespace berth::sys::old {

/// True when this kernel lacks one of the calls that make and change mounts by descriptors.
bool needed();

/// As the functions of mounts.hh without the prefix. What is "not attached" there lies here in a tmpfs of its own, over
/// a directory of /sys that nothing is taken from; it is found by its descriptor alone, and a recursive copy of the
/// tree leaves it out. Throw SysError.
Fd clone_tree(int fd, bool recursive, const std::string& what);
void move_mount(int mount, int target, const std::string& what);
Fd new_mount(const std::string& type, const std::vector<MountOption>& options, unsigned attributes);
void set_attributes(int mount, uint64_t set, uint64_t clear, bool recursive, const std::string& what,
                    uint64_t propagation);

/// True when `fd` is the root of a mount, as /proc shows (Linux 5.8 and newer: statx).
bool is_mount_root(int fd, const std::string& what);

}  // namespace berth::sys::old
