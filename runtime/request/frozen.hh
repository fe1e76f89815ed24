// What srun or sbatch found out for all nodes of a job: the digest that the image's tag means. It travels in the job's
// environment. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/digest.hh"

namespace berth::plan {

/// "SLURM_BERTH_FROZEN": named as Slurm's own, since those pass whatever --export says.
extern const char* const frozen_variable;

/// The variable's value: the image as it was written, and the digest.
std::string frozen_value(std::string_view image, const Digest& digest);

/// The digest that the environment (NAME=VALUE) has for the image as written; empty for another image (that of a step
/// in a batch script), or none. Words behind the digest are passed over. Throws Error for a digest that this release
/// does not know: nodes that asked for themselves could run another image.
std::optional<Digest> frozen_digest(const std::vector<std::string>& environment, std::string_view image);

/// "SLURM_BERTH_REFUSED": which of the user's logins the registry refused when srun or sbatch asked it, so that no node
/// sends them again. Without the logins.
extern const char* const refused_variable;

/// The variable's value for the image as it was written; `words` have no blanks, and are berth-pull's own.
std::string refused_value(std::string_view image, const std::vector<std::string>& words);

/// The words that the environment has for this image; at most 16.
std::vector<std::string> refused_logins(const std::vector<std::string>& environment, std::string_view image);

/// "SLURM_BERTH_MEETING": where the nodes of a step agree on a digest that srun did not learn, and share the image.
extern const char* const agreement_variable;

/// Takes that out of `environment` (NAME=VALUE). What is run with an environment afterwards does not learn the secret.
void forget_agreement(std::vector<std::string>& environment);

/// "BERTH_AGREE_SECRET": in the environment of srun's process for that, the step's secret, which no list of processes
/// shows there.
extern const char* const secret_variable;

/// The variable's value for the image as it was written; `place` is the port of srun's machine and the step's secret.
std::string agreement_value(std::string_view image, std::string_view place);

/// Where a node asks, as "HOST PORT SECRET NODE RANK" (MeetingPlace): the host is srun's by Slurm's own
/// SLURM_SRUN_COMM_HOST, `rank` is the node's in the step. Words behind the secret are passed over. Empty when the
/// environment has nothing for this image.
std::string agreement_address(const std::vector<std::string>& environment, std::string_view image,
                              std::string_view node, unsigned rank);

}  // namespace berth::plan
