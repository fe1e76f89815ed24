// How many CPUs this process may really use: its affinity, and the share of time that its control groups leave it.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace berth {

/// The content of a file, or nothing when it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

/// Pure but for `read`. The CPUs that the control groups of `membership` (the text of /proc/PID/cgroup) allow, as a
/// number that may be broken; nothing when there is no limit. Every group up to the root counts: the least wins.
/// Version 2 (cpu.max) and 1 (cpu.cfs_quota_us), as in the kernel's Documentation/admin-guide/cgroup-v2.rst and
/// Documentation/scheduler/sched-bwc.rst, mounted below /sys/fs/cgroup as systemd does.
std::optional<double> cgroup_cpus(std::string_view membership, const FileReader& read);

/// At least 1. Never throws.
unsigned usable_cpus();

}  // namespace berth
