// What a step was granted of the node's devices, and whether a container that runs already has just that. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/visible_devices.hh"

namespace berth::plan {

/// What makers of edits give to a container because of what its step may have: devices, and the files of their drivers.
/// Of a container's edits device_grant() (plan.hh) finds it.
struct DeviceGrant {
    std::vector<std::string> files;  ///< paths on the node, sorted: the image decides where they are in the container
    std::vector<VisibleDevices> devices;
    bool operator==(const DeviceGrant&) const = default;
};

/// A container as a step would find it that joins.
struct GrantDifference {
    std::vector<std::string> missing;  ///< what the step was granted and the container does not have: "nvidia1", a path
    std::vector<std::string> foreign;  ///< devices of the container that the step was not granted, and could use
    bool empty() const { return missing.empty() && foreign.empty(); }
};

/// `may_open` says of a path whether this step may open it: a device that Slurm keeps from the step does no harm in the
/// container.
GrantDifference difference(const DeviceGrant& container, const DeviceGrant& step,
                           const std::function<bool(const std::string&)>& may_open);

/// "it has nvidia0, which this step was not granted, and lacks nvidia1"
std::string words_of(const GrantDifference& difference);

}  // namespace berth::plan
