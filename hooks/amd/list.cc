// Which AMD GPUs a node has, and what becomes of each in a container. Decided by the functions that a start uses.
#include <algorithm>

#include "hooks/amd/amd.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

bool has(const AmdChoice& choice, size_t gpu) { return std::ranges::find(choice.gpus, gpu) != choice.gpus.end(); }

ListedDevice listed(const AmdGpu& gpu) {
    std::string node = cat("renderD", gpu.minor);
    ListedDevice out{.name = node, .what = "AMD GPU", .bus = gpu.bus, .nodes = {"/dev/dri/" + node}};
    if (!gpu.card.empty()) out.nodes.push_back("/dev/dri/" + gpu.card);
    if (gpu.unique_id != 0) out.id = amd_uuid(gpu.unique_id);
    out.open = gpu.access == Access::allowed;
    out.usable = gpu.access != Access::missing;
    return out;
}

std::string why_not(const ListedDevice& device, bool granted, const AmdRequest& request, const DeviceList& list) {
    if (!device.usable) return cat(device.nodes[0], " does not exist; see the kernel's log for amdgpu");
    if (!device.open)
        return cat("this process may not open ", device.nodes[0], ", by its device cgroup or the node's mode");
    if (!granted)
        return request.grant.devices.empty() ? "Slurm has granted no GPU to this step"
                                             : "Slurm has not granted it: " + printable(request.grant.source);
    if (!list.error.empty()) return "no container starts";
    return request.wanted ? "AMD_VISIBLE_DEVICES does not name it" : "AMD_VISIBLE_DEVICES asks for none";
}

}  // namespace

DeviceList list_amd(const Host& host, const std::vector<std::string>& job) {
    AmdNode node = find_amd(host);
    DeviceList out;
    if (node.gpus.empty()) return out;
    AmdRequest request = amd_request({}, job), everything = request;
    if (const char* value = variable(job, "AMD_VISIBLE_DEVICES")) out.asked = cat("AMD_VISIBLE_DEVICES=", value);
    everything.all = true;
    everything.devices.clear();
    AmdChoice granted = choose_amd(node, everything), chosen;
    out.notes = granted.warnings;
    if (node.kfd != Access::allowed)
        out.notes.push_back(node.kfd == Access::missing ? "no program of ROCm finds a GPU: /dev/kfd is missing"
                                                        : "no program of ROCm finds a GPU: this process may not open "
                                                          "/dev/kfd");
    try {
        if (request.wanted) chosen = choose_amd(node, request);
    } catch (const Error& error) {
        out.error = error.what();
    }
    for (size_t i = 0; i < node.gpus.size(); ++i) {
        ListedDevice device = listed(node.gpus[i]);
        device.given = has(chosen, i);
        if (!device.given) device.why = why_not(device, has(granted, i), request, out);
        out.devices.push_back(std::move(device));
    }
    return out;
}

}  // namespace berth::hooks
