// What a node has of all device families, what this process may open of it, what a container would get, and why not
// the rest: for `berth devices` and `berth doctor`.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "hooks/makers.hh"

namespace berth::hooks {

/// What a family says, or what takes its place.
struct FamilyList {
    std::string vendor;
    DeviceList list;
};

/// Of each family in the list of makers, in its order. A family that fails has its line in DeviceList::error, one that
/// lists nothing has a note that says so. `job` is the environment (NAME=VALUE) of who would start the container.
std::vector<FamilyList> list_devices(const Host& host, const plan::Site& site, const std::vector<std::string>& job);

/// The same of other makers.
std::vector<FamilyList> list_devices(std::span<const DeviceMaker* const> makers, const Host& host,
                                     const plan::Site& site, const std::vector<std::string>& job);

/// For `berth doctor`: what each family says of the node, a line for each device that no program can use, and one for
/// an error by which no container starts.
std::vector<DeviceStatus> device_statuses(const Host& host, const plan::Site& site,
                                          const std::vector<std::string>& job);

}  // namespace berth::hooks
