// The plugin's options in srun, sbatch, salloc and slurmstepd.
#pragma once
#include "runtime/request/options.hh"
#include "spank/slurm.hh"

namespace berth::spank {

/// Registers all options; for slurm_spank_init in the contexts that have options.
void register_options(spank_t spank);

/// In srun, before its command line is read: hands what the environment's variables ask for to Slurm as if a
/// surrounding allocation had left it, so that it reaches the nodes whatever --export says. Flags are left to the job's
/// environment, where the helper finds them. What is wrong with a variable waits for take_environment_options().
void offer_environment_options();

/// On the submit side, after the command line: the options given so far that no surrounding allocation has left.
plan::GivenOptions own_options();

/// On the submit side, after the command line: adds what the environment's variables ask for. Throws Error for a
/// mistake in one that is used. Those of sbatch and salloc travel in the job's environment, where the helper finds
/// them.
void take_environment_options();

/// On the submit side, when all options are known: throws Error for an image that is a file and not written as one, or
/// that Slurm has cut.
void check_image();

/// The process is sbatch.
bool is_sbatch();

/// Throws Error in scrontab, which asks plugins whether an option is right and then drops it (it never calls
/// spank_init_post_opt()).
void refuse_in_scrontab(const char* option);

/// In sbatch, when the options of a job, or of the first component of a heterogeneous one, are all known.
void keep_first_part();

/// In sbatch, after that: the options are another component's. The batch script has what the first one has left, and
/// SPANK has one value of an option for all, so that other options than the first one's are refused.
bool is_later_part();

/// In salloc: says that options have no effect where no shell will be started.
void note_without_shell();

/// On the submit side, after that: leaves the options' names in the environment for nodes of another release.
void leave_option_names();

/// On the submit side, after that: leaves all values of --container-mount there, of which Slurm keeps the last one.
void leave_mounts();

/// On the submit side: says which options were given twice, and which options and variables have no effect.
void note_options();

}  // namespace berth::spank
