#include "spank/job_end.hh"

#include <exception>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "spank/helper.hh"
#include "spank/job_leaves.hh"
#include "spank/job_mounts.hh"
#include "spank/job_steps.hh"
#include "spank/slurm.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

constexpr int leaves_timeout_ms = 2'000;

/// The containers that are the job's alone, by its user. Its group is the one that its steps had: the folder's is the
/// user's choice. A mistake with them is no reason to keep the folder.
void remove_containers(const JobOnNode& job, gid_t gid, const JobLeaves& leaves, const Fd& mounts) {
    // What is in the job's mounts alone can be seen there alone: EntireStepInNS, namespace/linux.
    bool may_have_some = mounts && leaves.had_helpers();
    if (!may_have_some && !has_user_mark(job.uid, cat("job-", job.job))) return;
    try {
        StartedHelper started =
            start_helper(step().config.helper, {job.uid, gid, {gid}}, {"end-job", std::to_string(job.job)},
                         {leaves.folder(), -1, mounts.get()});
        wait_for_helper(started.process.get(), removal_timeout_ms);
    } catch (const Error& error) {
        slurm_spank_log("berth: %s", error.what());
    }
}

/// What is left of a job's containers and processes.
void end_processes(const JobOnNode& job, gid_t gid, const Fd& mounts, bool slurm_is_done) {
    JobLeaves leaves(job_groups_folder, job.node, job.job);
    remove_containers(job, gid, leaves, mounts);
    if (!leaves.end(leaves_timeout_ms, slurm_is_done))
        slurm_spank_log("berth: %s: ending what job %u has left: processes are still there after SIGKILL; see what "
                        "they wait for (ps -eo pid,stat,wchan,cgroup)",
                        node_name().c_str(), job.job);
}

/// As all of the job, in its epilog or where there is none.
void end_all_of_job(const JobOnNode& job, gid_t gid, const Fd& mounts, bool slurm_is_done) {
    try {
        end_processes(job, gid, mounts, slurm_is_done);
    } catch (const std::exception& error) {
        slurm_spank_log("berth: %s: %s", job.node.c_str(), error.what());
    }
    leave_run_directory(job);
}

/// Where no epilog of plugins follows the job, its last step does what that does elsewhere. The extern step says that
/// the job is over; others may still be ending then.
void end_job_without_epilog() {
    bool over = step().is_extern || is_without_allocation(step().job.job);
    Fd last = leave_job(job_steps_folder, step().job, std::move(step().hold), over);
    if (!last) return;
    Fd mounts = step().has_job_mounts ? open_job_mounts(step().job.job) : Fd();
    end_all_of_job(step().job, step().group, mounts, false);
    forget_job(job_steps_folder, step().job);
}

/// The job's mounts go with its extern step, before its epilog.
void remove_containers_in_job_mounts() {
    Fd mounts = open_job_mounts(step().job.job);
    if (mounts)
        remove_containers(step().job, step().group, JobLeaves(job_groups_folder, step().job.node, step().job.job),
                          mounts);
}

}  // namespace

void end_job_in_epilog(const JobOnNode& job, gid_t gid) { end_all_of_job(job, gid, Fd(), true); }

void end_job_of_step() {
    try {
        if (!step().has_epilog)
            end_job_without_epilog();
        else if (step().is_extern && step().has_job_mounts)
            remove_containers_in_job_mounts();
    } catch (const std::exception& error) {
        slurm_spank_log("berth: %s: ending job %u: %s", step().job.node.c_str(), step().job.job, error.what());
    }
}

/// One that is not said to be over is when not even its extern step runs.
void end_left_jobs() {
    try {
        for (IdleJob& left : idle_jobs(job_steps_folder, step().job)) {
            JobLeaves leaves(job_groups_folder, left.job.node, left.job.job);
            bool has_steps = leaves.has_steps();
            if (!left.over && has_steps) continue;
            leaves.end(leaves_timeout_ms, !has_steps);
            leave_run_directory(left.job);
            forget_job(job_steps_folder, left.job);
        }
    } catch (const Error& error) {
        slurm_info("berth: ending what earlier jobs have left: %s", error.what());
    }
}

}  // namespace berth::spank
