// What Slurm says of a job.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace berth::mig {

/// The answer of `scontrol --details show job`. `program` is a path, or a name that is looked for in `path`. Throws
/// Error when there is none in time.
std::string scontrol_answer(const std::string& program, const std::string& path, uint32_t job,
                            std::chrono::seconds patience);

}  // namespace berth::mig
