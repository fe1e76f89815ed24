// The GPUs whose division is known without their driver: for plans without a GPU, and for drivers that do not tell the
// names of profiles.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mig/layout/profile.hh"

namespace berth::mig {

/// All of them, by names like "H100-80GB".
const std::vector<Model>& known_models();

/// The model of a GPU by the name that NVML gives ("NVIDIA H100 80GB HBM3"), or by that of the table; nothing for a GPU
/// that is in no table.
std::optional<Model> model_of(std::string_view gpu);

}  // namespace berth::mig
