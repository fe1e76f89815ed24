// What srun or sbatch found out for all nodes of a job: the digest that the image's tag means. It travels in the job's environment. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// "SLURM_BERTH_FROZEN": named as Slurm's own, since those pass whatever --export says.
extern const char* const frozen_variable;

/// The variable's value: the image as it was written, and the digest.
std::string frozen_value(std::string_view image, std::string_view digest);

/// The digest that the environment (NAME=VALUE) has for the image as written; empty for another image (that of a step in a batch script), or none.
std::string frozen_digest(const std::vector<std::string>& environment, std::string_view image);

}  // namespace berth::plan
