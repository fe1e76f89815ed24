// The end of a job on this node: its containers, its processes, its cgroups and its folder in /run. All of it is for
// root.
#pragma once
#include "spank/run_directory.hh"

namespace berth::spank {

/// The node waits for a job's end; what is not removed by then is left to the next sweep.
inline constexpr int removal_timeout_ms = 20'000;

/// In slurmd's epilog. Throws Error.
void end_job_in_epilog(const JobOnNode& job, gid_t gid);

/// At the end of this process's step. Where no epilog of plugins follows the job, its last step does what that does
/// elsewhere (job_steps.hh). The extern step ends what the epilog would not see. Says what goes wrong.
void end_job_of_step();

/// Before a step with a container, where no epilog of plugins follows a job: ends what a slurmstepd that was killed has
/// left of other jobs.
void end_left_jobs();

}  // namespace berth::spank
