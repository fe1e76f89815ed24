// What it takes to start a step in a job that runs, from outside of it: the job as the user writes it and as squeue(1)
// tells of it, and the words for srun(1). Pure.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

/// JOB[.STEP] of a command line.
struct JobTarget {
    std::string job;   ///< "1234", or "1234_7" for a task of a job array
    std::string step;  ///< "0", "batch", "interactive"; empty: the one that has a container
    std::string text() const { return step.empty() ? job : job + "." + step; }
    bool operator==(const JobTarget&) const = default;
};

/// Throws Error with a caret.
JobTarget parse_job_target(std::string_view text);

/// A job of squeue(1).
struct QueuedJob {
    std::string id;     ///< the number by which Slurm's other commands know it
    std::string name;   ///< the same, or ARRAY_TASK
    std::string state;  ///< "RUNNING"
    std::string uid;
    std::string nodes;  ///< as Slurm writes them: "n[1-4]"; empty while it waits
    bool operator==(const QueuedJob&) const = default;
};

/// The arguments of squeue for parse_queue(), and for the nodes of a step of the job with the number `id`.
std::vector<std::string> queue_words(const JobTarget& target);
std::vector<std::string> step_words(const std::string& id, const std::string& step);

/// Lines that are of another form are left out.
std::vector<QueuedJob> parse_queue(std::string_view text);

/// The one that is meant, which runs and is the user's. Throws Error.
QueuedJob running_job(const std::vector<QueuedJob>& queue, const JobTarget& target, uid_t uid);

/// The node where the step goes: `wanted`, or without that the first one of `nodes`. Throws Error when the job has no
/// such node.
std::string node_of_job(const std::vector<std::string>& nodes, const std::string& wanted, const JobTarget& target);

/// What is asked for of a new step.
struct StepInJob {
    std::string job;   ///< its number
    std::string node;
    bool terminal = false;
    bool may_be_bound = false;  ///< see binds_tasks()
    std::vector<std::string> command;
};

/// The arguments of srun. The step shares what the job has with the job's other steps and is bound to none of its
/// CPUs; its output is passed on as it comes.
std::vector<std::string> srun_words(const StepInJob& step);

/// True when `scontrol show config` says that tasks may be bound to CPUs. Without that srun complains of --cpu-bind.
bool binds_tasks(std::string_view settings);

/// True for a variable that would make another step of it: options of srun, squeue and Berth's containers, and what a
/// job around this one has set. Where Slurm is found (SLURM_CONF, SLURM_JWT) stays.
bool steers_srun(std::string_view variable);

}  // namespace berth::cli
