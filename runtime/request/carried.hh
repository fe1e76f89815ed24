// What a batch script is told of its submission, whatever --export and --export-file leave of the job's environment.
// Slurm's own way for a plugin's options is a part of that environment, and gets lost with it. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/options.hh"

namespace berth::plan {

/// Where Slurm leaves the value of an option that salloc or sbatch was given:
/// "SLURM_SPANK__SLURM_SPANK_OPTION_berth_container_image" of "container-image". Every form of --export lets it pass.
std::string carried_option(std::string_view option);

/// Adds the options that the environment (NAME=VALUE) of a batch script has so. Those that are given already win.
void add_carried_options(GivenOptions& options, const std::vector<std::string>& environment);

/// The variables of Berth's that sbatch leaves for the batch script.
const std::vector<const char*>& script_variables();

/// For spank_job_control_setenv(): the name under which sbatch leaves one of them a second time, since --export-file
/// drops the first. "BERTH_FROZEN" of "SLURM_BERTH_FROZEN".
std::string control_name(std::string_view variable);

/// What that is in the job's environment: "SLURM_SPANK_BERTH_FROZEN".
std::string carried_variable(std::string_view variable);

/// The same for the names of the options: a submission by a sbatch with Berth's plugin, which asked for a container.
std::string submission_mark();

/// "SLURM_BERTH_ENTERS": set for the step by which `berth exec --job` comes to a job's container. It is on the node on
/// purpose.
extern const char* const enters_variable;

/// A line that says which options of the submission have not come to the batch script; empty when all have, and for a
/// submission without the mark. Their variables were not exported.
std::string missing_note(const GivenOptions& options, const std::vector<std::string>& environment);

}  // namespace berth::plan
