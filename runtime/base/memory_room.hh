// How much memory this process's control groups and its node leave.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/base/cpus.hh"

namespace berth {

struct MemoryRoom {
    std::optional<uint64_t> limit;  ///< bytes, the least of its groups'; none: no group has one
    uint64_t left = UINT64_MAX;     ///< bytes until the nearest limit, of a group or of the node (MemAvailable)
};

/// Pure but for `read`. `membership` is the text of /proc/PID/cgroup. Version 2 (memory.max, memory.current) and 1
/// (memory.limit_in_bytes, memory.usage_in_bytes), mounted below /sys/fs/cgroup as systemd does; see cgroup-v2.rst and
/// cgroup-v1/memory.rst of the kernel. A group's cache of files counts as left: the kernel takes it back.
MemoryRoom memory_room(std::string_view membership, const FileReader& read);

/// Bytes of memory that this process has, each page divided by those who share it (Pss of smaps_rollup); 0 where the
/// kernel does not tell. `proc` is a descriptor of /proc.
uint64_t own_memory(int proc) noexcept;

}  // namespace berth
