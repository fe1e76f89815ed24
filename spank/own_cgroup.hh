// A cgroup namespace of a task's own, by `defaults.unshare` (docs/adr/0108). Nothing of Slurm in it, so that tests can
// run it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::spank {

/// A hierarchy of cgroups, and where its file system is mounted below /sys/fs/cgroup.
struct Hierarchy {
    std::string type;     ///< "cgroup2" or "cgroup"
    std::string options;  ///< of version 1: its controllers, "cpu,cpuacct" or "name=systemd"
    std::string folder;   ///< "", "/unified", "/cpu,cpuacct", "/systemd"
    bool operator==(const Hierarchy&) const = default;
};

/// Those that /proc/self/cgroup has, in a system with version 2 alone or with version 1. Pure.
std::vector<Hierarchy> hierarchies_of(std::string_view cgroups, bool version_2_alone);

/// Makes a cgroup namespace whose root is the cgroup that the calling process is in, and a copy of its mount namespace,
/// in which /sys/fs/cgroup shows the cgroups from that one on, read-only. What is not mounted there, or what the kernel
/// does not mount anew, stays as it is. The process has entered the container's namespaces and still has its rights.
/// Throws SysError.
void enter_own_cgroup();

}  // namespace berth::spank
