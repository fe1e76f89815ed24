// Which steps of a job run on this node, and whether the job is over: for where Slurm calls no slurm_spank_job_epilog
// (PrologFlags=RunInJob, srun --no-allocate). Whoever is last of a job does what the epilog does elsewhere.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "spank/run_directory.hh"

namespace berth::spank {

/// Root's folder, outside of every job's mounts. It has a file UID.JOB.NODE for each job with a container: each of its
/// steps that run holds a shared lock on it, which ends with its slurmstepd, and one that is not empty is of a job that
/// is over.
inline constexpr const char* job_steps_folder = "/run/berth.steps";

/// The step's hold on its job. Throws SysError.
Fd enter_job(const std::string& folder, const JobOnNode& job);

/// Gives up the hold (or none). When `over`, no more steps of the job begin. Gives a new hold, which nobody else can
/// get, when the job is over and no step of it runs any more: then it is the caller's to end it. Throws SysError.
Fd leave_job(const std::string& folder, const JobOnNode& job, Fd hold, bool over);

/// With the hold that leave_job() gave, once the job has been ended.
void forget_job(const std::string& folder, const JobOnNode& job);

struct IdleJob {
    JobOnNode job;
    bool over;
    Fd hold;  ///< as of leave_job()
};

/// The jobs on this node of which no step runs, apart from `own`: between two steps, or left by a slurmstepd that was
/// killed. Throws SysError.
std::vector<IdleJob> idle_jobs(const std::string& folder, const JobOnNode& own);

}  // namespace berth::spank
