// --container-mount, which may be given several times. SPANK keeps the last value of an option; all of them travel in
// the job's environment. Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/request/options.hh"

namespace berth::plan {

/// "SLURM_BERTH_MOUNTS": named as Slurm's own, since those pass whatever --export says.
extern const char* const mounts_variable;

/// The values as one, which is a value of the option too. Each of them has been checked: none is empty. Throws Error
/// when that is longer than the kernel's limit of a variable allows.
std::string joined_mounts(const std::vector<std::string>& values);

/// All values that the environment (NAME=VALUE) has, where `last` is the last of them; else that one: the variable is
/// then of another command.
std::string all_mounts(const std::vector<std::string>& environment, const std::string& last);

/// On the node: puts all values in place of the last one.
void complete_mounts(GivenOptions& options, const std::vector<std::string>& environment);

}  // namespace berth::plan
