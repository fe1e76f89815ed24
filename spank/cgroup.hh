// Where Slurm has put a step in the node's cgroups, and where its helper belongs: from the text of /proc/PID/cgroup.
// Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::spank {

/// The longest /proc/PID/cgroup and /proc/PID/status that are read, in bytes.
constexpr size_t proc_file_limit = 64 * 1024;

/// Where Slurm's plugins, too, look for the hierarchies by default.
constexpr std::string_view cgroup_folder = "/sys/fs/cgroup";

/// The cgroup of a job, as Slurm's plugins make it: cgroup_v2.c has SCOPE/job_5/step_0/{slurm,user} (another name for
/// job_5 from 26.05 on), cgroup_v1.c has /slurm/uid_2001/job_5/step_0 in each hierarchy.
struct JobGroup {
    std::string mount;  ///< of the hierarchy: /sys/fs/cgroup, or with version 1 that of the freezer
    std::string job;    ///< the job's group below it, with a slash in front
    std::string step;   ///< with version 2 the step's group, in the same way; else empty
    bool unified = false;  ///< version 2
};

/// The job's group of the process whose /proc/PID/cgroup is `cgroups`: slurmstepd itself, or a task. Nothing when Slurm
/// has not put it into one (proctrack/linuxproc).
std::optional<JobGroup> job_group(std::string_view cgroups);

/// A group without subgroups for a helper and all that it starts.
struct LeafPlace {
    std::string mount;
    std::string parent;  ///< the group that it is made in, with a slash in front
    std::string name;
};

/// Where the helper of a step belongs that ends with the step: with version 2 beside Slurm's own two groups of the
/// step, with version 1 below the job, because there the step's group is the user's. `step` is its name ("0", "batch").
LeafPlace leaf_of_step(const JobGroup& group, std::string_view step);

/// Where one belongs that may outlive the step, and ends with the job. With version 2 it is a group for each step,
/// since the device nodes that may be opened are those of the group.
LeafPlace leaf_of_job(const JobGroup& group, std::string_view step);

/// The name of the leaf, below a job's group, of what it has been handed by the job `from`, which has ended.
std::string leaf_handed_over_by(uint32_t from);

/// True for the names that these three give, of whatever step.
bool is_leaf_name(std::string_view name);

/// True for the names of leaves that end with the job: of leaf_of_job() and leaf_handed_over_by().
bool is_name_of_jobs_leaf(std::string_view name, bool unified);

/// With version 2 the group that Slurm puts a step's tasks in, with a slash in front.
std::string tasks_of_step(const JobGroup& group);

/// True when the process whose /proc/PID/cgroup is `cgroups` is in such a leaf.
bool is_in_leaf(std::string_view cgroups);

}  // namespace berth::spank
