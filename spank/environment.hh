// --container-environment in srun, sbatch and salloc: the file is read there, once for all nodes, as the user who
// calls, by the program `berth`.
#pragma once
#include "runtime/request/options.hh"

namespace berth::spank {

/// Has the environment read that the options ask for, if they do; shows its notes, adds its options to those of the
/// step and hands it to the nodes by the job's environment. `own` are the options that the user gave to this command:
/// with an environment among them, its file counts more than what a surrounding job or a variable says. In a job that
/// sbatch has read the same environment for, that answer stands. Throws Error for an environment that cannot be read,
/// or without an image where no option has one.
void take_environment_file(const plan::GivenOptions& own);

}  // namespace berth::spank
