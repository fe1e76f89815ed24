// The container of a job's step on this node, for a process of the same user that is in no container.
#pragma once
#include <string>
#include <vector>

#include "runtime/container/named/helper.hh"
#include "runtime/cli/running_job.hh"

namespace berth::cli {

struct JobContainer {
    std::string step;  ///< JOB.STEP
    JoinedContainer joined;
    Fd connection;     ///< to the step's helper, which closes it at the end of the step
};

/// `target` has the job's number; `environment` (NAME=VALUE, of a step of Slurm on this node) is what
/// joined.environment will change. Waits for a container that is being started. Throws Error when there is none, or
/// when the job has several and the target names no step.
JobContainer find_job_container(const JobTarget& target, const std::vector<std::string>& environment);

}  // namespace berth::cli
