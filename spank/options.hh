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

/// On the submit side, when all options are known: throws Error for an image that is a file and not written as one.
void check_image();

/// On the submit side, after that: leaves the options' names in the environment for nodes of another release.
void leave_option_names();

/// On the submit side: says which options were given twice, and which have no effect.
void note_options();

}  // namespace berth::spank
