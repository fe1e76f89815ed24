// The names of the options that srun, sbatch or salloc was given. Slurm drops an option that the plugin of a node does
// not have; by its name the node's helper can refuse it. They travel in the job's environment. Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/request/options.hh"

namespace berth::plan {

/// "SLURM_BERTH_OPTIONS": named as Slurm's own, since those pass whatever --export says.
extern const char* const options_variable;

/// The variable's value: the names, with blanks between; empty for no options. Those that ask for none are left out.
std::string names_of(const GivenOptions& options);

/// Throws Error when the environment (NAME=VALUE) names an option that this release does not have: without it the step
/// would be another one than was asked for.
void check_option_names(const std::vector<std::string>& environment);

}  // namespace berth::plan
