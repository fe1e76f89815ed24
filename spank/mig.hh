// --mig and --mig-per-task of sbatch, salloc and srun: how they come to Prolog, which divides the GPUs, and to the
// job's steps. They say something of a job, not of a container, and are therefore no rows of the table of options.
#pragma once
#include "spank/slurm.hh"

namespace berth::spank {

/// Throws Error when Slurm refuses them.
void register_mig_options(spank_t spank);

/// On the submit side: hands what was given to the job's Prolog as SPANK_BERTH_MIG, and to its steps in their
/// environment.
void pass_mig_options(spank_t spank);

}  // namespace berth::spank
