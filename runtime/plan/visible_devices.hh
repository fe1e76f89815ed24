// Which GPUs a task gets to see: CUDA_VISIBLE_DEVICES made to agree with what the task can open.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::plan {

/// A GPU or a slice of one (MIG) in a container.
struct VisibleDevice {
    std::string uuid;                ///< "GPU-..." or "MIG-..."; empty when nobody tells it
    bool slice = false;              ///< a MIG device
    /// the node keeps the job from devices of other jobs, so that Slurm counts among those of the job
    bool constrained = false;
    unsigned position = 0;           ///< among the node's devices as Slurm lists them (gres.conf), counted from 0
    std::vector<std::string> nodes;  ///< paths that a task must be able to open to use it
    bool operator==(const VisibleDevice&) const = default;
};

/// One text for a message, and back. Throws Error for anything that visible_device_text() does not make.
std::string visible_device_text(const VisibleDevice& device);
VisibleDevice parse_visible_device(const std::string& text);

/// Which of them this process can open, in its present root: the nodes are tried, not opened, for that can initialise a
/// GPU.
std::vector<bool> accessible_devices(const std::vector<VisibleDevice>& devices);

/// The variables (NAME, VALUE) that have to be set for a task with `environment`, which can open those of `devices` (in
/// the order of the PCI bus) for which `accessible` is true. Empty when what Slurm set is right, when the container has
/// no GPU, and when a device is needed whose UUID nobody tells.
std::vector<std::pair<std::string, std::string>> visible_device_changes(const std::vector<VisibleDevice>& devices,
                                                                        const std::vector<bool>& accessible,
                                                                        const std::vector<std::string>& environment);

}  // namespace berth::plan
