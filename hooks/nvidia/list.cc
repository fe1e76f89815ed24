// Which GPUs and MIG devices a node has, and what becomes of each in a container. Decided by the functions that a start
// uses.
#include <algorithm>

#include "hooks/nvidia/nvidia.hh"
#include "hooks/nvidia/unusable.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

class Lister {
  public:
    Lister(const Host& host, const std::string& root, const Driver& driver, const NvidiaRequest& request,
           const std::string& unwanted)
        : host_(host), root_(root), driver_(driver), request_(request), unwanted_(unwanted),
          reach_(reach_of(driver, request)) {}

    DeviceList run() {
        choose_devices();
        for (size_t i = 0; i < driver_.gpus.size(); ++i) {
            add_gpu(i);
            for (size_t slice = 0; slice < driver_.gpus[i].slices.size(); ++slice) add_slice(i, slice);
        }
        for (const UnusableGpu& one : driver_.unusable) add_unusable(one);
        if (driver_.unusable.empty())
            for (const StrayNode& one : driver_.strays) add_stray(one);
        return std::move(out_);
    }

  private:
    void choose_devices() {
        out_.notes = reach_.warnings;
        if (!driver_.nvml_trouble.empty()) out_.notes.push_back("NVML could not be asked: " + driver_.nvml_trouble);
        if (!request_.wanted) return;
        try {
            check_named_gpus(host_, driver_, request_);
            Choice choice = choose(driver_, request_);
            check_usable(host_, driver_, request_, choice);
            chosen_ = choice.devices;
        } catch (const Error& error) {
            out_.error = error.what();
        }
    }

    void add_gpu(size_t i) {
        const Gpu& gpu = driver_.gpus[i];
        ListedDevice device{.name = gpu_node(gpu).substr(5),
                            .what = gpu.model.empty() ? "GPU" : gpu.model,
                            .id = gpu.uuid,
                            .bus = gpu.bus,
                            .nodes = {gpu_node(gpu)}};
        device.open = gpu.access == Access::allowed;
        std::string sick = why_unusable(host_, gpu);
        device.usable = sick.empty() && gpu.access != Access::missing;
        auto of_this = [&](const std::set<Chosen>& all) {
            return std::ranges::any_of(all, [&](const Chosen& one) { return one.gpu == i; });
        };
        device.given = of_this(chosen_);
        if (!device.given) device.why = why_not(gpu, sick, device.nodes, of_this(reach_.open), of_this(reach_.granted));
        if (device.given && !gpu.slices.empty()) device.what += ", in MIG devices";
        out_.devices.push_back(std::move(device));
    }

    void add_slice(size_t i, size_t number) {
        const Gpu& gpu = driver_.gpus[i];
        const Slice& slice = gpu.slices[number];
        ListedDevice device{.name = cat(gpu_node(gpu).substr(5), "/gi", slice.gpu_instance, "/ci",
                                        slice.compute_instance),
                            .what = "MIG device",
                            .id = slice.uuid,
                            .bus = gpu.bus,
                            .nodes = {gpu_node(gpu)}};
        for (const auto& cap : {slice.gpu_cap, slice.compute_cap})
            if (cap) device.nodes.push_back(cap_node(*cap));
        device.open = slice.open && gpu.access == Access::allowed;
        std::string sick = why_unusable(host_, gpu);
        device.usable = sick.empty() && gpu.access != Access::missing;
        Chosen one{i, number};
        // A GPU that is named by its number brings its node, and no MIG device.
        device.given = chosen_.contains(one);
        if (!device.given)
            device.why = why_not(gpu, sick, device.nodes, reach_.open.contains(one), reach_.granted.contains(one));
        out_.devices.push_back(std::move(device));
    }

    std::string why_not(const Gpu& gpu, const std::string& sick, const std::vector<std::string>& nodes, bool open,
                        bool granted) const {
        if (!sick.empty()) return sick;
        if (gpu.access == Access::missing)
            return cat(gpu_node(gpu), " does not exist; run nvidia-modprobe on the node (as root)");
        if (!open) return why_closed(nodes);
        if (!granted)
            return request_.grant.devices.empty() ? "Slurm has granted no GPU to this step"
                                                  : "Slurm has not granted it: " + printable(request_.grant.source);
        if (!out_.error.empty()) return "no container starts";
        if (!request_.wanted) return unwanted_;
        return "NVIDIA_VISIBLE_DEVICES does not name it";
    }

    /// Nodes of MIG devices can be read by all and written by nobody.
    std::string why_closed(const std::vector<std::string>& nodes) const {
        for (const std::string& node : nodes)
            if (host_.access(root_ + node, node.starts_with("/dev/nvidia-caps/")) != Access::allowed)
                return cat("this process may not open ", node, ", by its device cgroup or the node's mode");
        return "only its MIG devices can be used, and this process may open none of them";
    }

    void add_unusable(const UnusableGpu& one) {
        ListedDevice device{.name = one.bus, .what = "GPU", .id = one.uuid, .bus = one.bus};
        device.usable = false;
        device.why = one.why;
        out_.devices.push_back(std::move(device));
    }

    void add_stray(const StrayNode& one) {
        std::string name = cat("nvidia", one.minor);
        ListedDevice device{.name = name, .what = "GPU", .nodes = {"/dev/" + name}};
        device.open = one.access == Access::allowed;
        device.usable = false;
        device.why = "the NVIDIA driver has no such GPU: it has fallen off the bus, or another driver has it";
        out_.devices.push_back(std::move(device));
    }

    const Host& host_;
    const std::string& root_;  ///< below which the folder dev lies
    const Driver& driver_;
    const NvidiaRequest& request_;
    const std::string& unwanted_;
    Reach reach_;
    std::set<Chosen> chosen_;
    DeviceList out_;
};

}  // namespace

DeviceList list_nvidia(const Host& host, const NvidiaRequest& request, const NvidiaSettings& settings,
                       const NvmlSource& nvml, const std::string& unwanted) {
    auto driver = find_driver(host, settings.roots);
    if (!driver) return {};
    auto slices = [](const Gpu& gpu) { return gpu.access == Access::allowed && !gpu.slices.empty(); };
    if (nvml && (needs_nvml(*driver, request) || std::ranges::any_of(driver->gpus, slices))) ask_nvml(*driver, nvml);
    DeviceList out = Lister(host, settings.roots.devices, *driver, request, unwanted).run();
    out.about = cat("driver ", driver->module_version, driver->cuda.empty() ? "" : ", CUDA up to " + driver->cuda);
    return out;
}

}  // namespace berth::hooks
