// Which devices a task gets to see: the variables of their vendor made to agree with what the task can open. Which
// variables these are, and what stands in them, is data that the vendor's maker (hooks/) puts into the plan.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::plan {

/// A GPU or a slice of one (MIG) in a container.
struct VisibleDevice {
    std::string uuid;                ///< "GPU-..." or "MIG-..."; empty when it is not known
    bool slice = false;              ///< a part of a device, which has no number of its own: a MIG device
    /// Slurm counts among the devices of the job or step: it keeps them from those of others
    bool constrained = false;
    unsigned position = 0;           ///< among the node's devices as Slurm lists them (gres.conf), counted from 0
    std::vector<std::string> nodes;  ///< paths that a task must be able to open to use it
    bool operator==(const VisibleDevice&) const = default;
};

/// A variable by which a vendor's library is told the devices of a task, with commas between them.
struct DeviceVariable {
    /// Positions count the devices that the task can open, from 0; nested ones those that the vendor's own variable has
    /// left of them.
    enum class Form { uuid, position, nested };
    std::string name;                    ///< "CUDA_VISIBLE_DEVICES"
    Form form = Form::uuid;
    bool operator==(const DeviceVariable&) const = default;
};

/// The devices of one vendor in a container.
struct VisibleDevices {
    std::string vendor;  ///< of the maker: "nvidia"
    /// The first is the vendor's own: in it Slurm says what it has granted, and a task gets it even where Slurm has not
    /// set it. The others are changed where the task has them; nested ones only where they have the same text as the
    /// first: Slurm writes one text into all, and what a user has written is meant to be nested.
    std::vector<DeviceVariable> variables;
    std::vector<VisibleDevice> devices;  ///< in the order in which the vendor's library counts them
    bool operator==(const VisibleDevices&) const = default;
};

/// One text for a message, and back. Throws Error for anything that the function beside it does not make.
std::string visible_device_text(const VisibleDevice& device);
VisibleDevice parse_visible_device(const std::string& text);
/// Not of a nested variable, which stands in a record of its own: a release that does not know it passes it over.
std::string device_variable_text(const DeviceVariable& variable);
DeviceVariable parse_device_variable(const std::string& text);

/// Which of them this process can open, in its present root: the nodes are tried, not opened, for that can initialise a
/// GPU.
std::vector<bool> accessible_devices(const std::vector<VisibleDevice>& devices);

/// The variables (NAME, VALUE) that have to be set for a task with `environment`, which can open those devices for
/// which `accessible` says true. None of a vendor where what Slurm set is right, where the container has no device of
/// it, and where a device is needed whose UUID nobody tells. A vendor's own variable is changed for its own devices
/// alone. Throws Error for a task that --mig-per-task leaves without a MIG device.
using Accessible = std::function<std::vector<bool>(const std::vector<VisibleDevice>&)>;
std::vector<std::pair<std::string, std::string>> visible_device_changes(const std::vector<VisibleDevices>& vendors,
                                                                        const Accessible& accessible,
                                                                        const std::vector<std::string>& environment);

}  // namespace berth::plan
