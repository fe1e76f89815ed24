// Which GPUs Slurm has granted to a step, by the variables that it sets. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::hooks {

struct SlurmGrant {
    /// Of the two, the UUID counts where a device of the node has it.
    struct Device {
        std::string uuid;                  ///< empty: not told
        std::optional<unsigned> position;  ///< among the node's devices as Slurm lists them
        bool operator==(const Device&) const = default;
    };
    enum class Says { nothing, none, devices };

    Says says = Says::nothing;
    std::vector<Device> devices = {};
    bool whole = false;     ///< these are all devices of the step, by SLURM_STEP_GPUS
    bool relative = false;  ///< the vendor's variable counts among the step's devices, not among the node's
    std::string source = {};  ///< for messages: "SLURM_STEP_GPUS=4,5"
};

/// `variable` is the vendor's: "CUDA_VISIBLE_DEVICES". Slurm constrains a step's tasks and not always who reads this:
/// then the variable's numbers count the step's devices and SLURM_STEP_GPUS those of the node (gres_common.c of Slurm).
/// A job's SLURM_JOB_GPUS stays in the environment of its steps, also of those without GPUs (--gres=none).
SlurmGrant slurm_grant(const std::vector<std::string>& job, std::string_view variable);

}  // namespace berth::hooks
