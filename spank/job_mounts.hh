// The mounts that Slurm makes for a job alone, such as its own /tmp and /dev/shm (job_container/tmpfs).
//
// Slurm keeps them in a mount namespace which is mounted as a file, "BASE/JOB/.ns" (22.05 to 26.05, src/plugins/
// job_container/tmpfs and namespace/tmpfs, _create_ns) or "BASE/JOB/.ns/mnt" (namespace/linux, _create_paths). Tasks
// are in it before they join a container. slurmstepd, and user_init without contain_spank, are not; with EntireStepInNS
// and namespace/linux all are but the extern step.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/fd.hh"

namespace berth::spank {

/// The file that is the job's mount namespace, by the lines of /proc/PID/mountinfo (proc(5)); empty when there is none.
std::string job_mounts_file(std::string_view mountinfo, uint32_t job);

/// The job's mount namespace, to be entered by setns(2); empty when Slurm has none for it. Throws SysError.
Fd open_job_mounts(uint32_t job);

/// Has the user's folder in /run/berth, as this process sees it, seen in the job's mounts as well: they were made
/// before it. For root; starts a process and waits for its end. Throws SysError.
void show_run_directory(int job_mounts, uid_t uid);

}  // namespace berth::spank
