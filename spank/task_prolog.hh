// The site's TaskProlog, run on the node before its task enters the container. slurmstepd would run it inside, where
// neither the script nor Slurm is. Nothing of Slurm in here, so that tests can run it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.hh"

namespace berth::spank {

/// What a prolog prints, by the rules of slurm.conf(5): lines "export NAME=VALUE", "unset NAME" and "print TEXT"; all
/// others mean nothing.
struct PrologOutput {
    std::vector<plan::EnvironmentChange> changes;
    std::string text;  ///< for the task's standard output
};
PrologOutput parse_prolog(std::string_view output);

/// Runs `path` without arguments and with `environment`, and returns what it says. Throws Error when it cannot be run
/// or fails; the exit code is its own.
PrologOutput run_prolog(const std::string& path, const std::vector<std::string>& environment);

}  // namespace berth::spank
