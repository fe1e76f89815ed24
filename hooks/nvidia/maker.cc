// NVIDIA GPUs as a device family: what the site and the job ask for, NVML, hooks of nvidia-ctk, and berth doctor.
#include <algorithm>

#include "hooks/cdi_edits.hh"
#include "hooks/makers.hh"
#include "hooks/nvidia/nvidia.hh"
#include "hooks/slurm_grant.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"

namespace berth::hooks {

namespace {

constexpr auto nvml_patience = std::chrono::seconds(20);  // A GPU without persistence takes seconds to wake.

std::string root_of(const std::string& setting) { return setting == "/" ? "" : setting; }

/// Asked for by a program of its own: NVML opens devices and may hang.
NvmlReport nvml_of(const Host& host, const std::string& driver_root, const std::vector<std::string>& buses) {
    std::string library = "libnvidia-ml.so.1";
    if (!driver_root.empty()) {
        DriverFiles files = find_driver_files(host, driver_root, "", {Capability::utility});
        if (!files.libraries.empty()) library = files.libraries[0].source;
    }
    std::vector<std::string> words{"nvml", library};
    words.insert(words.end(), buses.begin(), buses.end());
    ProgramOutput answer = host.ask(words, nvml_patience);
    if (answer.text) return parse_nvml(*answer.text);
    NvmlReport nothing;
    nothing.trouble = answer.why;
    return nothing;
}

NvidiaSettings settings_of(const plan::Site& site) {
    return {site.devices.nvidia == plan::NvidiaMode::required,
            {root_of(site.devices.driver_root), root_of(site.devices.device_root)}};
}

/// As an image of CUDA's asks; what the job says counts before it.
DeviceList list(const DeviceListRequest& asked) {
    const std::string usual = "NVIDIA_VISIBLE_DEVICES=all";
    NvidiaSettings settings = settings_of(asked.site);
    const char* of_job = variable(asked.job, "NVIDIA_VISIBLE_DEVICES");
    std::string asks = of_job ? cat("NVIDIA_VISIBLE_DEVICES=", printable(of_job)) : usual;
    NvidiaRequest request = nvidia_request({usual}, asked.job);
    bool off = asked.site.devices.nvidia == plan::NvidiaMode::off;
    if (off) request.wanted = false;
    auto nvml = [&](const std::vector<std::string>& buses) {
        return nvml_of(asked.host, settings.roots.driver, buses);
    };
    DeviceList out = list_nvidia(asked.host, request, settings, nvml,
                                 off ? "devices.nvidia of berth.conf is \"off\"" : asks + " asks for none");
    out.asked = asks;
    return out;
}

/// One node's line is enough.
bool is_first_node(const std::vector<std::string>& job) {
    std::string node = value_in(job, "SLURM_NODEID");
    return node.empty() || node == "0";
}

/// An image that is not made for GPUs does not ask for them, and its programs say no more than that there is none. Who
/// wants none of those that the step has says so.
plan::ContainerEdits note_on_unasked(const DeviceRequest& asked) {
    auto is_set = [&](const char* name) {
        return variable(asked.job, name) != nullptr || variable(asked.image_variables, name) != nullptr;
    };
    bool by_cdi = is_set("BERTH_DEVICES") || !asked.site.devices.cdi.empty();
    // Slurm grants those of AMD in the same way.
    bool may_be_another = asked.host.exists("/dev/kfd");
    plan::ContainerEdits out;
    if (is_set("NVIDIA_VISIBLE_DEVICES") || by_cdi || may_be_another || value_in(asked.job, "SLURM_JOB_ID").empty() ||
        !is_first_node(asked.job) || !has_driver(asked.host) ||
        slurm_grant(asked.job, "CUDA_VISIBLE_DEVICES").says != SlurmGrant::Says::devices)
        return out;
    out.warnings.push_back(
        "this step has a GPU that the image does not ask for; set NVIDIA_VISIBLE_DEVICES=all for it, or =void for "
        "none");
    return out;
}

plan::ContainerEdits make(const DeviceRequest& asked) {
    const plan::Site& site = asked.site;
    if (site.devices.nvidia == plan::NvidiaMode::off) return {};
    NvidiaRequest request = nvidia_request(asked.image_variables, asked.job);
    if (!request.wanted) return note_on_unasked(asked);
    NvidiaSettings settings = settings_of(site);
    return nvidia_hook(asked.host, asked.image, request, settings,
                       [&](const std::vector<std::string>& buses) {
                           return nvml_of(asked.host, settings.roots.driver, buses);
                       });
}

/// The GPUs and slices whose nodes the container gets.
Choice choice_of(const Driver& driver, const CdiEdits& asked) {
    auto has = [&](const std::string& target) {
        return std::ranges::any_of(asked.nodes, [&](const auto& node) { return node.second == target; });
    };
    Choice choice;
    for (size_t i = 0; i < driver.gpus.size(); ++i) {
        const Gpu& gpu = driver.gpus[i];
        if (!has(gpu_node(gpu))) continue;
        choice.devices.insert({i, std::nullopt});
        for (size_t slice = 0; slice < gpu.slices.size(); ++slice)
            if (const auto& cap = gpu.slices[slice].compute_cap; cap && has(cap_node(*cap)))
                choice.devices.insert({i, slice});
    }
    return choice;
}

/// CUDA's forward compatibility libraries of the image, for the loader.
std::vector<plan::CachedLibrary> compat_libraries(const Host& host, const Rootfs& image) {
    std::vector<plan::CachedLibrary> out;
    std::string version = parse_module_version(host.read("/proc/driver/nvidia/version").value_or(""));
    std::string folder = version.empty() ? "" : compat_folder(image, version);
    if (folder.empty()) return out;
    for (const std::string& name : image.list(folder))
        if (name.starts_with("lib") && name.find(".so.") != std::string::npos)
            out.push_back({.flags = loader_flags(), .name = name, .path = folder + "/" + name});
    return out;
}

CdiHookResult do_cdi_hooks(const CdiHookRequest& request) {
    CdiHookResult out;
    auto asked = [&](const char* name) { return request.asked.hooks.contains(name); };
    // Where NVIDIA_VISIBLE_DEVICES gives devices too, what it shows of the driver holds.
    bool files = !request.made && (asked(hook_keep_nodes) || asked(hook_profile));
    if (auto driver = files ? find_driver(request.host, {}) : std::nullopt) {
        Choice choice = choice_of(*driver, request.asked);
        if (asked(hook_keep_nodes)) add_proc_edits(out.edits, request.host, *driver, choice);
        if (asked(hook_profile)) add_profile_edits(out.edits, *driver, choice);
    }
    if (asked(hook_compat)) out.preferred = compat_libraries(request.host, request.image);
    return out;
}

DeviceStatus status(const Host& host, const plan::Site&) {
    std::string driver;
    if (auto text = host.read("/proc/driver/nvidia/version")) {
        driver = parse_module_version(*text);
        if (driver.empty()) driver = "of an unknown version";
    }
    auto is_gpu = [](const std::string& name) {
        return name.starts_with("nvidia") && name.size() > 6 &&
               name.find_first_not_of("0123456789", 6) == std::string::npos;
    };
    return nvidia_status(driver, static_cast<unsigned>(std::ranges::count_if(host.list("/dev"), is_gpu)));
}

bool grants(const Host& host, const plan::Site& site, const std::vector<std::string>&) {
    return site.devices.nvidia != plan::NvidiaMode::off && has_driver(host);
}

constexpr const char* keys[] = {"devices.driver_root", "devices.device_root"};
constexpr const char* cdi_hooks[] = {hook_compat, hook_keep_nodes, hook_profile};

}  // namespace

DeviceStatus nvidia_status(const std::string& driver, unsigned gpus) {
    using Level = DeviceStatus::Level;
    if (gpus > 0 && driver.empty())
        return {Level::warning, "GPUs", cat(gpus, " device nodes, but no driver is loaded"), "modprobe nvidia"};
    if (driver.empty()) return {Level::note, "GPUs", "no NVIDIA driver"};
    if (gpus == 0)
        return {Level::warning, "GPUs", cat("driver ", driver, ", but no /dev/nvidiaN"),
                "nvidia-modprobe -u -c0, or nvidia-persistenced"};
    return {Level::ok, "GPUs", cat(gpus, ", driver ", driver)};
}

extern const DeviceMaker nvidia_maker{.vendor = "nvidia",
                                      .make = make,
                                      .keys = keys,
                                      .status = status,
                                      .list = list,
                                      .cdi_kind = "nvidia.com/gpu",
                                      .cdi_variable = "NVIDIA_VISIBLE_DEVICES",
                                      .grants = grants,
                                      .cdi_hooks = cdi_hooks,
                                      .do_cdi_hooks = do_cdi_hooks};

}  // namespace berth::hooks
