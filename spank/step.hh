// What the plugin remembers in one process: srun, sbatch, salloc, or the slurmstepd of one step and the tasks forked
// from it.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/request/options.hh"
#include "spank/config.hh"
#include "spank/ending.hh"
#include "spank/follow.hh"
#include "spank/leaf.hh"
#include "spank/memory_kills.hh"
#include "spank/own_process.hh"
#include "spank/run_directory.hh"
#include "spank/sentinel.hh"
#include "spank/watch.hh"

namespace berth::spank {

/// SPANK has no context pointer, so there is one of these for the process.
struct Step {
    Config config;
    plan::GivenOptions options;
    bool beside_pyxis = false;  ///< this process has Pyxis' plugin too: see beside.hh
    /// An error from before the tasks: only task_init reaches the user.
    std::optional<Error> held_error;
    OwnProcess own;  ///< slurmstepd's: the following descriptors and threads are there
    Fd socket;       ///< to the helper; its end of file is the helper's sign to go
    Fd helper;       ///< pidfd of the helper
    Leaf leaf;       ///< where the helper is
    bool leaf_is_jobs = false;  ///< it outlives the step
    Fd tasks_group;             ///< with version 2 of cgroups the folder of the group that the tasks are in
    Fd job_mounts;              ///< the mount namespace of the job, until the helper has been started
    Ending ending;
    HelperLines lines{plan::said_meanwhile};  ///< what the helper says while tasks run
    std::chrono::steady_clock::time_point heard;  ///< when it has last said something then
    Watch watch;
    MemoryKills memory_kills;  ///< of the helper
    uint32_t ended_tasks = 0;
    bool saves = false;          ///< the container is saved after the last task
    Sentinel sentinel;           ///< while it is saved
    std::unique_ptr<Child> resolver;  ///< in srun and sbatch: asks what the image's tag means
    std::chrono::steady_clock::time_point resolver_started;
    std::unique_ptr<Child> tracker;  ///< in srun: where the nodes agree on that, and share the image
    bool is_script = false;      ///< in slurmstepd: this step is a batch script
    bool has_container = false;  ///< its tasks run in one
    bool lost_container = false;    ///< its submission asked for one, and no option has come
    bool is_beside_script = false;  ///< it has none, and its job's batch script on this node has
    std::string address;         ///< of its helper, by which other steps join it: the socket's name
    JobOnNode job;               ///< whose step it is
    gid_t group = 0;             ///< of the job
    bool is_extern = false;      ///< the one that is there as long as the job
    bool has_epilog = true;      ///< false where Slurm calls no epilog of plugins after this job: job_steps.hh
    bool has_job_mounts = false;  ///< perhaps: job_mounts.hh
    Fd hold;                     ///< on the job, where that is so
};

/// The step of this process.
Step& step();

/// The name of this node in messages.
std::string node_name();

}  // namespace berth::spank
