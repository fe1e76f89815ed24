// What the processes of a cgroup may open, with version 2: programs of the kernel that are attached to it
// (BPF_CGROUP_DEVICE in bpf(2)). Slurm attaches one to each job and to step_N/user (cgroup_v2.c, ebpf.c).
#pragma once

namespace berth::spank {

/// Attaches to the group at `to` what is attached to the group at `from`, descriptors of their folders, so that who is
/// in `to` may open what who is in `from` may. Where nothing is attached to `from`, as with a step without devices of
/// its own, what holds for the groups above goes on to hold. Makes only system calls, for a child after a fork. False
/// when the kernel refuses: not root, or no such programs.
bool copy_device_filter(int from, int to);

}  // namespace berth::spank
