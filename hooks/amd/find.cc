#include <algorithm>
#include <map>
#include <tuple>

#include "hooks/amd/amd.hh"
#include "hooks/edits.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

const std::string module = "/sys/module/amdgpu", drivers = module + "/drivers/pci:amdgpu",
                  platform = "/sys/devices/platform", topology = "/sys/class/kfd/kfd/topology/nodes";
constexpr unsigned render_minors = 1 << 20;

/// The number behind `start` in a name such as "renderD128".
std::optional<unsigned> number_behind(const std::string& name, std::string_view start) {
    uint64_t number = 0;
    if (!name.starts_with(start) || !parse_number(name.substr(start.size()), render_minors, number)) return {};
    return static_cast<unsigned>(number);
}

/// What the driver has made for a device, with a render node; nothing without one.
std::optional<AmdGpu> gpu_at(const Host& host, const std::string& folder, const std::string& bus) {
    AmdGpu gpu;
    gpu.bus = bus;
    for (const std::string& name : host.list(folder + "/drm")) {
        if (auto minor = number_behind(name, "renderD")) gpu.minor = *minor;
        if (number_behind(name, "card")) gpu.card = name;
    }
    if (gpu.minor == 0) return std::nullopt;
    gpu.access = host.access(cat("/dev/dri/renderD", gpu.minor));
    return gpu;
}

/// By the minors of their render nodes. The kernel hides from a step what it may not open.
std::map<unsigned, std::pair<unsigned, KfdProperties>> nodes_of_kernel(const Host& host) {
    std::map<unsigned, std::pair<unsigned, KfdProperties>> out;
    for (const std::string& name : host.list(topology)) {
        auto number = number_behind(name, "");
        auto text = number ? host.read(cat(topology, "/", name, "/properties")) : std::nullopt;
        if (auto properties = text ? parse_kfd_properties(*text) : std::nullopt)
            out[properties->minor] = {*number, *properties};
    }
    return out;
}

void count_as_slurm(std::vector<AmdGpu>& gpus) {
    for (AmdGpu& gpu : gpus)
        gpu.position = static_cast<unsigned>(
            std::ranges::count_if(gpus, [&](const AmdGpu& other) { return other.minor < gpu.minor; }));
}

}  // namespace

std::optional<KfdProperties> parse_kfd_properties(const std::string& text) {
    std::map<std::string, uint64_t> numbers;
    for (const std::string& line : split(text, '\n')) {
        size_t blank = line.find(' ');
        uint64_t number = 0;
        if (blank != std::string::npos && parse_number(trimmed(line.substr(blank)), UINT64_MAX, number))
            numbers.emplace(line.substr(0, blank), number);
    }
    uint64_t minor = numbers["drm_render_minor"], location = numbers["location_id"], domain = numbers["domain"];
    if (minor == 0 || minor > render_minors) return std::nullopt;
    char bus[32];
    std::snprintf(bus, sizeof bus, "%04x:%02x:%02x.%x", static_cast<unsigned>(domain & UINT32_MAX),
                  static_cast<unsigned>(location >> 8 & 0xff), static_cast<unsigned>(location >> 3 & 0x1f),
                  static_cast<unsigned>(location & 7));
    return KfdProperties{static_cast<unsigned>(minor), numbers["unique_id"], bus};
}

bool has_amd_driver(const Host& host) { return host.exists(module); }

AmdNode find_amd(const Host& host) {
    AmdNode out;
    if (!has_amd_driver(host)) return out;
    for (const std::string& name : host.list(drivers))
        if (std::string bus = normal_bus(name); !bus.empty())
            if (auto gpu = gpu_at(host, drivers + "/" + name, bus)) out.gpus.push_back(std::move(*gpu));
    // The parts of a GPU but the first one, which has the GPU's own address.
    for (const std::string& name : host.list(platform))
        if (name.starts_with("amdgpu_xcp"))
            if (auto gpu = gpu_at(host, platform + "/" + name, "")) out.gpus.push_back(std::move(*gpu));
    auto kernel = nodes_of_kernel(host);
    for (AmdGpu& gpu : out.gpus)
        if (auto found = kernel.find(gpu.minor); found != kernel.end()) {
            gpu.kfd_node = found->second.first;
            gpu.unique_id = found->second.second.unique_id;
            if (gpu.bus.empty()) gpu.bus = found->second.second.bus;
        }
    // What the step may open and the kernel's topology does not have, computes nothing.
    std::erase_if(out.gpus, [](const AmdGpu& gpu) { return gpu.access == Access::allowed && !gpu.kfd_node; });
    std::ranges::sort(out.gpus, {}, [](const AmdGpu& gpu) { return std::tie(gpu.bus, gpu.minor); });
    count_as_slurm(out.gpus);
    out.constrained = std::ranges::any_of(out.gpus, [](const AmdGpu& gpu) { return gpu.access == Access::denied; });
    out.kfd = host.access("/dev/kfd");
    return out;
}

}  // namespace berth::hooks
