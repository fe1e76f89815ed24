#include "runtime/plan/device_grant.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

/// In words for the user: of a MIG device that of its compute instance.
std::string name_of(const VisibleDevice& device) {
    if (device.nodes.empty()) return device.uuid;
    const std::string& node = device.nodes.back();
    return node.substr(node.rfind('/') + 1);
}

bool has(const std::vector<VisibleDevices>& vendors, const VisibleDevice& device) {
    return std::ranges::any_of(vendors, [&](const VisibleDevices& vendor) {
        return std::ranges::any_of(vendor.devices,
                                   [&](const VisibleDevice& other) { return other.nodes == device.nodes; });
    });
}

/// Those devices of `all` that `some` has not.
std::vector<VisibleDevice> devices_without(const std::vector<VisibleDevices>& all,
                                           const std::vector<VisibleDevices>& some) {
    std::vector<VisibleDevice> out;
    for (const VisibleDevices& vendor : all)
        for (const VisibleDevice& device : vendor.devices)
            if (!has(some, device)) out.push_back(device);
    return out;
}

std::string list(const std::vector<std::string>& names) {
    constexpr size_t shown = 8;
    std::string out;
    for (size_t i = 0; i < names.size() && i < shown; ++i)
        out += cat(i == 0 ? "" : ", ", printable(names[i], 256));
    return names.size() > shown ? cat(out, " and ", names.size() - shown, " more") : out;
}

}  // namespace

GrantDifference difference(const DeviceGrant& container, const DeviceGrant& step,
                           const std::function<bool(const std::string&)>& may_open) {
    GrantDifference out;
    for (const VisibleDevice& device : devices_without(step.devices, container.devices))
        out.missing.push_back(name_of(device));
    // Where whole devices are missing, nobody asks for the files beside them.
    if (out.missing.empty())
        std::ranges::set_difference(step.files, container.files, std::back_inserter(out.missing));
    for (const VisibleDevice& device : devices_without(container.devices, step.devices))
        if (std::ranges::all_of(device.nodes, may_open)) out.foreign.push_back(name_of(device));
    return out;
}

std::string words_of(const GrantDifference& difference) {
    std::string out;
    if (!difference.foreign.empty())
        out = cat("it has ", list(difference.foreign), ", which this step was not granted");
    if (!difference.missing.empty())
        out += cat(out.empty() ? "it" : ", and", " lacks ", list(difference.missing));
    return out;
}

}  // namespace berth::plan
