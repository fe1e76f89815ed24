// Whether a job that has asked for MIG devices has them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth {

/// Why the step of such a job cannot be: by what berth-mig has told of the job, nothing when it has told nothing. Empty
/// when it can. Pure.
std::string mig_problem(const std::string& wanted, const std::optional<std::string>& told);

/// Throws Error when the job's environment asks for MIG devices and berth-mig has not made them on this node.
void check_mig(const std::vector<std::string>& environment, uint32_t job,
               const std::string& folder = "/var/lib/berth-mig/jobs");

}  // namespace berth
