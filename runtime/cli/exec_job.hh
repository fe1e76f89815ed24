// `berth exec --job JOB --`: from outside of a job into the container of one of its steps.
#pragma once
#include "runtime/cli/run_options.hh"
#include "runtime/cli/running_job.hh"

namespace berth::cli {

/// A job of the caller's that runs, as squeue(1) tells, and its nodes, or those of the step that is meant.
struct FoundJob {
    QueuedJob job;
    std::vector<std::string> nodes;
};

/// Takes what steers srun and squeue out of this process's environment first. Throws Error, also for a job that is
/// another user's or does not run.
FoundJob find_job(const JobTarget& target);

/// Replaces this process by an srun that starts a step in the job, which is `berth enter` on the node. As a server for
/// ssh it waits for that srun, whose exit code is returned. Throws Error.
int exec_in_job(const RunOptions& options, const JobExec& where);

}  // namespace berth::cli
