// AMD GPUs as a device family. The driver's libraries are the image's own: ROCm has no version that must be the node's.
#include <algorithm>

#include "hooks/amd/amd.hh"
#include "hooks/edits.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

const plan::Origin by_amd = plan::Origin::of_site("hook amd");

/// ROCm reads its own variable first and counts what the task can open. HIP and OpenCL then count what that has left.
const std::vector<plan::DeviceVariable> task_variables = {
    {"ROCR_VISIBLE_DEVICES", plan::DeviceVariable::Form::position},
    {"HIP_VISIBLE_DEVICES", plan::DeviceVariable::Form::nested},
    {"CUDA_VISIBLE_DEVICES", plan::DeviceVariable::Form::nested},
    {"GPU_DEVICE_ORDINAL", plan::DeviceVariable::Form::nested}};

constexpr const char* how_to_open =
    "make users members of the groups render and video, or give the nodes mode 0666 by a rule of udev";

plan::ContainerEdits make(const DeviceRequest& asked) {
    return amd_hook(asked.host, amd_request(asked.image_variables, asked.job));
}

DeviceStatus status(const Host& host, const plan::Site&) { return amd_status(find_amd(host)); }

DeviceList list(const DeviceListRequest& asked) { return list_amd(asked.host, asked.job); }

bool grants(const Host& host, const plan::Site&, const std::vector<std::string>&) { return has_amd_driver(host); }

}  // namespace

plan::ContainerEdits amd_hook(const Host& host, const AmdRequest& request) {
    plan::ContainerEdits out;
    if (!request.wanted) return out;
    AmdNode node = find_amd(host);
    if (node.gpus.empty()) {
        if (request.named)
            out.warnings.push_back(
                "GPUs are asked for by AMD_VISIBLE_DEVICES, and this node has no AMD GPU; the container runs without");
        return out;
    }
    AmdChoice choice = choose_amd(node, request);
    out.warnings = choice.warnings;
    if (choice.gpus.empty()) return out;
    for (size_t i : choice.gpus) {
        const AmdGpu& gpu = node.gpus[i];
        std::string reason = cat("AMD GPU ", gpu.bus);
        add_open_node(out.edits, host, cat("/dev/dri/renderD", gpu.minor), by_amd, reason);
        if (!gpu.card.empty()) add_open_node(out.edits, host, "/dev/dri/" + gpu.card, by_amd, reason);
    }
    if (!add_open_node(out.edits, host, "/dev/kfd", by_amd, "computing on AMD GPUs"))
        out.warnings.push_back(cat("programs of ROCm find no GPU: /dev/kfd ",
                                   node.kfd == Access::missing ? "is missing; see the kernel's log for amdgpu"
                                                               : cat("may not be opened; ", how_to_open)));
    out.variables = task_variables;
    out.devices = visible_amd_devices(node, request, choice);
    return out;
}

DeviceStatus amd_status(const AmdNode& node) {
    using Level = DeviceStatus::Level;
    const std::string subject = "AMD GPUs";
    if (node.gpus.empty()) return {Level::note, subject, "none"};
    auto open = static_cast<size_t>(
        std::ranges::count_if(node.gpus, [](const AmdGpu& gpu) { return gpu.access == Access::allowed; }));
    if (node.kfd == Access::missing)
        return {Level::failure, subject, cat(node.gpus.size(), ", but no /dev/kfd"), "see the kernel's log for amdgpu"};
    if (open == 0 || node.kfd != Access::allowed)
        return {Level::failure, subject,
                cat(node.gpus.size(), ", of which this user may open ",
                    open == 0 ? "none" : cat(open, ", but not /dev/kfd")),
                how_to_open};
    return {Level::ok, subject,
            cat(node.gpus.size(), open == node.gpus.size() ? "" : cat(", of which this user may open ", open))};
}

extern const DeviceMaker amd_maker{.vendor = "amd", .make = make, .status = status, .list = list,
                                   .cdi_kind = "amd.com/gpu", .cdi_variable = "AMD_VISIBLE_DEVICES",
                                   .grants = grants};

}  // namespace berth::hooks
