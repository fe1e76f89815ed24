// Whether the kernel has ended the step's helper for want of memory.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/fd.hh"

namespace berth::spank {

/// The file in which the kernel counts what it ends in the group of memory of a process, by its /proc/PID/cgroup: of
/// version 1 (memory.oom_control) or 2 (memory.events). Empty when there is no such group.
std::string memory_events_file(std::string_view cgroups);

/// The number behind "oom_kill" in such a file (the kernel's admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst); 0
/// when there is none.
uint64_t oom_kills(std::string_view events);

/// Counts from open() on.
class MemoryKills {
  public:
    /// `leaf` is a descriptor of the helper's own group, or -1: then it is in the group of the calling process. Does
    /// nothing when it is open, or where memory is not counted.
    void open(int leaf);

    /// How many processes of the group the kernel has ended since; 0 when it cannot be known.
    uint64_t count() const;

  private:
    Fd file_;
    uint64_t before_ = 0;
};

}  // namespace berth::spank
