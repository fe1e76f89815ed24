// The leaves of a job on this node, from its first step to its epilog, which Slurm runs in another process with no
// cgroup of the job's.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "spank/cgroup.hh"
#include "spank/leaf.hh"

namespace berth::spank {

/// Where root keeps, in symbolic links, which group is a job's: NODE.JOB -> MOUNT//GROUP. It goes with the node's
/// cgroups, at a reboot.
inline constexpr const char* job_groups_folder = "/run/berth.jobs";

/// Keeps which group is the job's, for its epilog. Throws SysError.
void remember_job_group(const std::string& folder, const std::string& node, uint32_t job, const JobGroup& group);

/// What is left of a job that has ended.
class JobLeaves {
  public:
    /// Empty for a job that had no leaf. Throws Error.
    JobLeaves(const std::string& folder, const std::string& node, uint32_t job);

    /// True when a process runs in a group of one of the job's steps; with PrologFlags=Contain there is one as long as
    /// the job lasts. Throws SysError.
    bool has_steps() const;

    /// True for a job whose group was kept: it had a step with a container.
    bool had_helpers() const { return !target_.path.empty(); }

    /// Leaf::folder() of a leaf_of_job(), or -1.
    int folder() const { return leaves_of_job_.empty() ? -1 : leaves_of_job_.front().folder(); }

    /// Kills what is left in the leaves of the job and its steps, and removes them and what Slurm could not remove
    /// because of them. What serves a container, and therefore has a user namespace of its own, goes to another job of
    /// its user's in whose leaf something runs: a container lives for as long as a job uses it. What would take a
    /// device of this job there is killed (held_devices.hh), whatever it serves. False when something is still there
    /// after `timeout_ms`; then it is remembered. With `slurm_is_done` false slurmstepds of the job may still be
    /// ending, which remove their groups themselves.
    bool end(int timeout_ms, bool slurm_is_done = true);

  private:
    /// The group of a job, below the mount of its hierarchy.
    struct Target {
        std::string mount, path;  ///< the path has a slash in front; both empty: none
    };

    Target target_of(const std::string& link) const;
    std::vector<Target> other_jobs() const;
    void hand_over_servers() const;
    bool make_leaf_in(const Target& job, Leaf& leaf) const;
    void wait_for_slurm() const;
    void remove_groups() const;
    void forget_gone_jobs() const;

    uint32_t job_;
    std::string links_path_;
    Fd links_;
    std::string link_prefix_, link_;
    Target target_;
    Fd group_;
    std::vector<Leaf> leaves_of_job_;
};

}  // namespace berth::spank
