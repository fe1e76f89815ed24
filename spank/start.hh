// What the plugin does in slurmstepd around the tasks: prepare as root, start the helper as the user, watch it, let it
// go.
#pragma once
#include "spank/slurm.hh"

namespace berth::spank {

/// slurm_spank_init_post_opt, root, of every step: whose it is, for end_step(). Throws Error.
void note_job(spank_t spank);

/// slurm_spank_init_post_opt, root. Errors are held for the tasks.
void prepare_step(spank_t spank);

/// slurm_spank_user_init, effective ids of the user. Errors are held for the tasks: an error here would not reach the
/// user, and would drain the node for a batch job.
void start_step(spank_t spank);

/// slurm_spank_task_post_fork, root.
void watch_task(spank_t spank);

/// slurm_spank_task_exit, root. With the last task the container ends: what is left in it would hold the step's
/// standard output open, for which slurmstepd waits before it calls slurm_spank_exit.
void task_ended(spank_t spank);

/// slurm_spank_exit, root: the helper unmounts and goes. Where no epilog of plugins follows the job, its last step also
/// does what end_job() does.
void end_step();

/// slurm_spank_job_epilog, root, in a process of slurmd's: removes the containers that were the job's alone, as its
/// user, and waits for that a bounded time. Throws Error.
void end_job(spank_t spank);

}  // namespace berth::spank
