// Which processes of this node use an image.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::store {

/// The processes that hold flock(2) on the file with this device and inode, by the text of /proc/locks; each once.
/// Pure.
std::vector<pid_t> lock_holders(std::string_view locks, dev_t device, ino_t inode);

/// "process 1234 (berth run debian:12)", and with the step where the process is in a cgroup of one; empty for a process
/// that has ended or is not seen from here.
std::string described_process(pid_t pid);

/// The first of those that hold a lock of the open file `fd`, as described_process() writes it, and how many more there
/// are. Empty when none is known: it may be a process on another node, or one in whose name another goes on.
std::string described_holders(int fd);

}  // namespace berth::store
