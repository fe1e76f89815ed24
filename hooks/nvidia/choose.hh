// Which GPUs and slices a container gets: what the step may open, of that what Slurm granted, of that what was asked
// for. Pure.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "hooks/nvidia/driver.hh"
#include "hooks/nvidia/request.hh"
#include "runtime/plan/visible_devices.hh"

namespace berth::hooks {

/// A GPU, or one of its slices. Positions in Driver::gpus and Gpu::slices.
struct Chosen {
    size_t gpu = 0;
    std::optional<size_t> slice;
    bool operator==(const Chosen&) const = default;
    auto operator<=>(const Chosen&) const = default;
};

struct Choice {
    std::set<Chosen> devices;
    std::vector<std::string> warnings;
};

/// What the step may choose from.
struct Reach {
    std::set<Chosen> open;     ///< by the nodes
    std::set<Chosen> granted;  ///< of these, by what Slurm says as far as it counts
    std::vector<std::string> warnings = {};
};
Reach reach_of(const Driver& driver, const NvidiaRequest& request);

/// True when UUIDs of GPUs or slices, or places of slices, decide something here that only NVML knows.
bool needs_nvml(const Driver& driver, const NvidiaRequest& request);

/// Throws Error for a device that was asked for and is not the step's, or not there.
Choice choose(const Driver& driver, const NvidiaRequest& request);

/// For the tasks: what they choose from.
std::vector<plan::VisibleDevice> visible_devices(const Driver& driver, const NvidiaRequest& request,
                                                 const Choice& choice);

}  // namespace berth::hooks
