// The device nodes of the NVIDIA driver, and /proc/driver/nvidia.
#include <algorithm>
#include <cstdio>

#include "hooks/edits.hh"
#include "hooks/nvidia/names.hh"
#include "hooks/nvidia/nvidia.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

constexpr unsigned usual_major = 195, control_minor = 255;

class Nodes {
  public:
    Nodes(std::vector<plan::Edit>& edits, const Host& host, const NvidiaSettings& settings, const Driver& driver)
        : edits_(edits), host_(host), root_(settings.roots.devices), driver_(driver) {}

    /// A node that must be there and be `expected`; without a known number any device will do.
    /// `remedy` makes it.
    void need(const std::string& path, std::optional<DeviceNumber> expected, const std::string& reason,
              const char* remedy = "nvidia-modprobe") {
        auto is = host_.device(root_ + path);
        if (!is)
            throw Error(cat("giving the container ", path, ": ",
                            host_.exists(root_ + path)
                                ? "it is no device"
                                : cat("it does not exist; run ", remedy, " on the node (as root)")));
        if (expected && *is != *expected)
            throw Error(cat("giving the container ", path, ": it is device ", is->major, ":", is->minor,
                            " and should be ", expected->major, ":", expected->minor,
                            "; remove it and run ", remedy));
        add(path, reason);
    }

    void take(const std::string& path, const std::string& reason) {
        if (host_.device(root_ + path)) add(path, reason);
    }

    /// What nobody has asked for by name: as far as the step may open it.
    void take_open(const std::string& path, const std::string& reason) {
        if (host_.access(root_ + path) == Access::allowed) take(path, reason);
    }

    std::optional<DeviceNumber> number(const char* driver, unsigned minor) const {
        auto found = driver_.majors.find(driver);
        if (found == driver_.majors.end()) return std::nullopt;
        return DeviceNumber{found->second, minor};
    }

    /// Of the GPUs; the driver has had two names in /proc/devices.
    DeviceNumber gpu_number(unsigned minor) const {
        for (const char* name : {"nvidia", "nvidia-frontend"})
            if (auto known = number(name, minor)) return *known;
        return {usual_major, minor};
    }

  private:
    void add(const std::string& path, const std::string& reason) {
        edits_.push_back(node_edit(host_, root_ + path, path, by_nvidia, reason));
    }

    std::vector<plan::Edit>& edits_;
    const Host& host_;
    const std::string& root_;
    const Driver& driver_;
};

void add_gpus(Nodes& nodes, const Driver& driver, const Choice& choice) {
    std::set<size_t> gpus;
    for (const Chosen& one : choice.devices) gpus.insert(one.gpu);
    for (size_t i : gpus) {
        const Gpu& gpu = driver.gpus[i];
        bool parent = choice.devices.lower_bound({i, 0}) != choice.devices.upper_bound({i, SIZE_MAX});
        nodes.need(gpu_node(gpu), nodes.gpu_number(gpu.minor),
                   cat(parent ? "parent of a MIG device" : "GPU", ", ", gpu.bus));
    }
    std::set<unsigned> added;
    for (const Chosen& one : choice.devices) {
        if (!one.slice) continue;
        const Gpu& gpu = driver.gpus[one.gpu];
        const Slice& slice = gpu.slices[*one.slice];
        std::string what = cat("MIG device gi", slice.gpu_instance, "/ci", slice.compute_instance, " of GPU ", gpu.bus);
        for (const auto& cap : {slice.gpu_cap, slice.compute_cap}) {
            if (!cap)
                throw Error(cat("giving the container ", what,
                                ": the driver names no node for it in the file `access` below "
                                "/proc/driver/nvidia/capabilities; make the MIG device anew"));
            if (added.insert(*cap).second) nodes.need(cap_node(*cap), nodes.number("nvidia-caps", *cap), what);
        }
    }
}

const std::string channel_folder = "/dev/nvidia-caps-imex-channels";

std::vector<unsigned> channels_of(const Host& host, const DriverRoots& roots) {
    std::vector<unsigned> all;
    for (const std::string& name : host.list(roots.devices + channel_folder))
        if (uint64_t number = 0; name.starts_with("channel") && parse_number(name.substr(7), UINT32_MAX, number))
            all.push_back(static_cast<unsigned>(number));
    std::sort(all.begin(), all.end());
    return all;
}

/// Without a word about them, as Enroot does: Slurm makes those of a job where the job alone may open them.
void add_channels(Nodes& nodes, const Host& host, const NvidiaRequest& request, const DriverRoots& roots) {
    auto path = [](unsigned number) { return cat(channel_folder, "/channel", number); };
    if (!request.imex_channels) {
        if (request.capabilities.contains(Capability::compute))
            for (unsigned number : channels_of(host, roots))
                nodes.take_open(path(number), "memory of other nodes' GPUs, for compute");
        return;
    }
    const char* reason = "NVIDIA_IMEX_CHANNELS";
    if (request.imex_channels->all)
        for (unsigned number : channels_of(host, roots)) nodes.take(path(number), reason);
    else
        for (unsigned number : request.imex_channels->numbers)
            nodes.need(path(number), nodes.number("nvidia-caps-imex-channels", number), reason);
}

/// The nodes of the direct rendering manager that belong to a GPU.
void add_rendering(Nodes& nodes, const Host& host, const Driver& driver, const Choice& choice) {
    std::set<size_t> gpus;
    for (const Chosen& one : choice.devices) gpus.insert(one.gpu);
    for (size_t gpu : gpus)
        for (const std::string& name :
             host.list(cat("/sys/bus/pci/devices/", normal_bus(driver.gpus[gpu].bus), "/drm")))
            if (name.starts_with("card") || name.starts_with("renderD")) nodes.take("/dev/dri/" + name, "graphics");
}

/// What NVIDIA_GDS asks for besides the nodes.
void add_storage_files(std::vector<plan::Edit>& edits, const Host& host) {
    for (const char* path : {"/run/udev", "/etc/cufile.json"})
        if (host.exists(path)) {
            edits.push_back(file_edit(host, path, path, by_nvidia, "NVIDIA_GDS"));
            std::get<plan::Mount>(edits.back().action).create = plan::Mount::Create::automatic;
        }
}

/// Nodes beside those of the GPUs. With compute, as Enroot has them, those that the step may open: they grant nothing
/// that the GPU itself does not.
void add_helpers(Nodes& nodes, const std::vector<std::string>& names, const HelperNodes& helper, bool asked) {
    for (const std::string& name : names)
        if (name.starts_with(helper.start))
            asked ? nodes.take("/dev/" + name, helper.variable) : nodes.take_open("/dev/" + name, "for compute");
}

}  // namespace

void add_device_edits(std::vector<plan::Edit>& edits, const Host& host, const NvidiaRequest& request,
                      const NvidiaSettings& settings, const Driver& driver, const Choice& choice) {
    Nodes nodes(edits, host, settings, driver);
    bool compute = request.capabilities.contains(Capability::compute),
         display = request.capabilities.contains(Capability::display);
    nodes.need("/dev/nvidiactl", nodes.gpu_number(control_minor), "the driver's control device");
    if (compute) {
        // Nothing makes it at boot. Without a GPU nothing opens it.
        const char *uvm = "/dev/nvidia-uvm", *reason = "unified memory, for compute";
        if (choice.devices.empty())
            nodes.take(uvm, reason);
        else
            nodes.need(uvm, nodes.number("nvidia-uvm", 0), reason, "nvidia-modprobe -u");
    }
    for (const CapabilityNode& node : capability_nodes())
        if (request.capabilities.contains(node.capability)) nodes.take(node.path, node.reason);
    add_gpus(nodes, driver, choice);
    if (display || request.capabilities.contains(Capability::graphics)) add_rendering(nodes, host, driver, choice);
    add_channels(nodes, host, request, settings.roots);
    const std::vector<std::string> names = host.list(settings.roots.devices + "/dev");
    for (const HelperNodes& helper : helper_nodes())
        if (bool asked = request.*helper.asked; asked || compute) add_helpers(nodes, names, helper, asked);
    if (request.gds) add_storage_files(edits, host);
}

void add_proc_edits(std::vector<plan::Edit>& edits, const Host& host, const Driver& driver, const Choice& choice) {
    const std::string proc = "/proc/driver/nvidia";
    plan::Mount cover;
    cover.kind = plan::Mount::Kind::tmpfs;
    cover.target = proc;
    cover.mode = 0555;
    cover.create = plan::Mount::Create::none;
    edits.push_back({cover, by_nvidia, "only the chosen GPUs are shown"});
    auto show = [&](const std::string& path, const char* reason) {
        if (!host.exists(proc + path)) return;
        edits.push_back(file_edit(host, proc + path, proc + path, by_nvidia, reason));
        std::get<plan::Mount>(edits.back().action).create = plan::Mount::Create::automatic;
    };
    show("/version", "the driver's version");
    show("/registry", "the driver's settings");
    const std::string modify = "ModifyDeviceFiles: 1";
    if (size_t at = driver.params.find(modify); at != std::string::npos) {
        std::string params = driver.params;
        params.replace(at, modify.size(), "ModifyDeviceFiles: 0");
        edits.push_back(
            {plan::DropIn{driver_params, params}, by_nvidia, "the driver's library must not make device nodes"});
    } else {
        show("/params", "the driver's parameters");
    }
    std::set<size_t> shown;
    for (const Chosen& one : choice.devices) {
        const Gpu& gpu = driver.gpus[one.gpu];
        if (shown.insert(one.gpu).second) show("/gpus/" + gpu.bus, "a chosen GPU");
    }
    std::set<std::string> instances;
    for (const Chosen& one : choice.devices) {
        if (!one.slice) continue;
        const Gpu& gpu = driver.gpus[one.gpu];
        const Slice& slice = gpu.slices[*one.slice];
        std::string instance = cat("/capabilities/gpu", gpu.minor, "/mig/gi", slice.gpu_instance);
        if (instances.insert(instance).second) show(instance + "/access", "a chosen MIG device");
        show(cat(instance, "/ci", slice.compute_instance, "/access"), "a chosen MIG device");
    }
}

void add_profile_edits(std::vector<plan::Edit>& edits, const Driver& driver, const Choice& choice) {
    uint64_t mask = 0;
    for (const Chosen& one : choice.devices)
        if (unsigned minor = driver.gpus[one.gpu].minor; minor < 64) mask |= uint64_t(1) << minor;
    if (mask == 0) return;
    char number[20];
    std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(mask));
    const char* reason = "EGL and Vulkan see the chosen GPUs alone";
    std::string folder = application_profile.substr(0, application_profile.rfind('/'));
    edits.push_back({plan::Directory{folder}, by_nvidia, reason});
    edits.push_back(
        {plan::DropIn{
             application_profile,
             cat(R"({"rules": [{"pattern": [], "profile": "container"}], "profiles": [{"name": "container",)"
                 R"( "settings": ["EGLVisibleDGPUDevices", )",
                 number, "]}]}\n")},
         by_nvidia, reason});
}

}  // namespace berth::hooks
