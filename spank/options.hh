// The plugin's options in srun, sbatch, salloc and slurmstepd.
#pragma once
#include "spank/slurm.hh"

namespace berth::spank {

/// Registers all options; for slurm_spank_init in the contexts that have options.
void register_options(spank_t spank);

/// On the submit side: says which options have no effect.
void note_ignored_options();

}  // namespace berth::spank
