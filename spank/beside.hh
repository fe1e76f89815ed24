// Pyxis' plugin beside this one, as on the day a site goes from one to the other. Both have the same options.
#pragma once
#include "spank/slurm.hh"

namespace berth::spank {

/// True when this process has loaded Pyxis' plugin, a file with "pyxis" in its name. Slurm loads all plugins of
/// plugstack.conf before it calls the first one (spank_stack_init() in src/common/plugstack.c of 22.05,
/// src/common/spank.c from 23.02 on), so that the order of the lines does not matter. Nothing else shows it: Slurm
/// accepts an option that another plugin has, with a line of its own, and never calls the second plugin for it
/// (_spank_option_register() there, the same up to 26.05).
bool pyxis_is_loaded();

/// In srun, sbatch, salloc and slurmd with Pyxis' plugin: says once what to do. The nodes are not told of options.
void stand_back();

/// In slurmstepd with Pyxis' plugin, before options come: Pyxis acts on its variables whether or not srun had its
/// plugin. When srun had this one, they become variables of this one in the job's environment.
void take_pyxis_variables(spank_t spank);

/// In slurmstepd with Pyxis' plugin, after options came: true when srun had this plugin alone, and the step is ours.
bool step_is_ours(spank_t spank);

}  // namespace berth::spank
