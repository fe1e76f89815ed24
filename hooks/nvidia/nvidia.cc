#include "hooks/nvidia/nvidia.hh"

#include <algorithm>

#include "hooks/edits.hh"
#include "hooks/nvidia/unusable.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::hooks {

namespace {

constexpr const char* usual_mps_folder = "/tmp/nvidia-mps";

/// CUDA's own first. Slurm sets the others beside it, with the same value; they know positions only.
const std::vector<plan::DeviceVariable> task_variables = {
    {"CUDA_VISIBLE_DEVICES", plan::DeviceVariable::Form::uuid},
    {"ROCR_VISIBLE_DEVICES", plan::DeviceVariable::Form::position},
    {"GPU_DEVICE_ORDINAL", plan::DeviceVariable::Form::position},
    {"ZE_AFFINITY_MASK", plan::DeviceVariable::Form::position}};

GpuProperties properties_of(const Driver& driver, const Gpu& gpu) {
    return {driver.cuda, driver.module_version, gpu.arch, gpu.brand};
}

/// "570.86.15 (CUDA 12.8)", with what is known of the GPU.
std::string has_text(const GpuProperties& has) {
    return cat("driver ", has.driver, has.cuda.empty() ? "" : ", CUDA up to " + has.cuda,
               has.arch.empty() ? "" : ", compute capability " + has.arch,
               has.brand.empty() ? "" : ", brand " + has.brand);
}

void check_versions(const Driver& driver, const DriverFiles& files, const DriverRoots& roots) {
    if (files.version == driver.module_version) return;
    if (files.version.empty())
        throw Error(cat("looking for the libraries of the NVIDIA driver ", driver.module_version,
                        ": there is no libcuda or libnvidia-ml ",
                        roots.driver.empty() ? "" : "below " + roots.driver + " ",
                        "on this node; install them or set devices.driver_root"));
    throw Error(cat("the NVIDIA driver of this node does not fit together: its kernel module is ",
                    driver.module_version, " and its libraries are ", files.version,
                    "; reload the module or reboot the node"));
}

void add_plain(std::vector<plan::Edit>& edits, const Host& host, const std::vector<DriverFile>& files,
               const char* reason, bool runs) {
    for (const DriverFile& file : files) {
        edits.push_back(file_edit(host, file.source, file.target, by_nvidia, reason));
        std::get<plan::Mount>(edits.back().action).no_exec = !runs;
    }
}

/// The pipe of CUDA's multi-process service, when it runs for the job.
void add_mps(plan::ContainerEdits& out, const Host& host, const NvidiaRequest& request) {
    if (!request.capabilities.contains(Capability::compute)) return;
    std::string path = request.mps_directory.empty() ? usual_mps_folder : request.mps_directory;
    bool usable = path.starts_with('/') && plan::forbidden_target(plan::normalised(path)).empty();
    if (!usable) {
        out.warnings.push_back(
            cat("CUDA_MPS_PIPE_DIRECTORY=", printable(path), " is no directory that can be mounted; it is left out"));
        return;
    }
    path = plan::normalised(path);
    if (!host.exists(path)) return;
    plan::Origin by = path == usual_mps_folder ? plan::Origin::of_site_in_shared_folder(by_nvidia.text())
                                               : plan::Origin("variable CUDA_MPS_PIPE_DIRECTORY");
    out.edits.push_back(bind_edit(host, path, path, by, "the pipe of CUDA's multi-process service"));
    std::get<plan::Mount>(out.edits.back().action).create = plan::Mount::Create::directory;
}

/// Those of nvidia-ctk that say what the edits write: a specification has no word for a file.
std::vector<std::string> cdi_hooks_of(const std::vector<plan::Edit>& edits) {
    std::vector<std::string> out;
    for (const plan::Edit& edit : edits)
        if (const auto* file = std::get_if<plan::DropIn>(&edit.action)) {
            if (file->path == driver_params) out.push_back(hook_keep_nodes);
            if (file->path == application_profile) out.push_back(hook_profile);
        }
    return out;
}

/// What is missing is an error where the site says so.
void tell(plan::ContainerEdits& out, const NvidiaSettings& settings, const std::string& line) {
    if (settings.required) throw Error(line + " (devices.nvidia is required)");
    out.warnings.push_back(line);
}

Choice choose_usable(const Host& host, const Driver& driver, const NvidiaRequest& request) {
    Choice out = choose(driver, request);
    check_usable(host, driver, request, out);
    return out;
}

/// NVML's answer, asked for at most once.
class LazyNvml {
  public:
    LazyNvml(const NvmlSource& source, Driver& driver) : source_(source), driver_(driver) {}
    void ask() {
        if (asked_ || !source_) return;
        asked_ = true;
        ask_nvml(driver_, source_);
    }

  private:
    const NvmlSource& source_;
    Driver& driver_;
    bool asked_ = false;
};

}  // namespace

void ask_nvml(Driver& driver, const NvmlSource& nvml) {
    std::vector<std::string> buses;
    for (const Gpu& gpu : driver.gpus)
        if (gpu.access != Access::denied) buses.push_back(gpu.bus);
    if (!buses.empty()) add_nvml(driver, nvml(buses));
}

bool check_requirements(const NvidiaRequest& request, const Driver& driver, const Choice& choice,
                        std::vector<std::string>* unknown) {
    std::vector<const Gpu*> gpus;
    for (const Chosen& one : choice.devices) gpus.push_back(&driver.gpus[one.gpu]);
    bool open = false;
    for (const Requirement& requirement : request.requirements)
        for (const Gpu* gpu : gpus) {
            GpuProperties has = properties_of(driver, *gpu);
            Verdict verdict = judge(requirement, has);
            std::string name = "NVIDIA_REQUIRE_" + printable(requirement.name);
            if (verdict == Verdict::refused)
                throw Error(cat("the image needs ", name, "=", printable(requirement.text), " and this node has ",
                                has_text(has), "; NVIDIA_DISABLE_REQUIRE=1 runs it all the same"));
            if (verdict != Verdict::unknown) continue;
            open = true;
            if (unknown)
                unknown->push_back(cat(name, "=", printable(requirement.text),
                                       " could not be checked: NVML could not be asked about this GPU",
                                       driver.nvml_trouble.empty() ? "" : ": " + driver.nvml_trouble));
        }
    return open;
}

plan::ContainerEdits nvidia_hook(const Host& host, const Rootfs& image, const NvidiaRequest& request,
                                 const NvidiaSettings& settings, const NvmlSource& nvml) {
    plan::ContainerEdits out;
    if (!request.wanted) return out;
    out.warnings = request.warnings;
    auto driver = find_driver(host, settings.roots);
    if (!driver) {
        tell(out, settings,
             "GPUs are asked for by NVIDIA_VISIBLE_DEVICES, and this node has no NVIDIA driver; the container runs "
             "without");
        return out;
    }
    LazyNvml lazy(nvml, *driver);
    bool by_nvml = needs_nvml(*driver, request);
    if (by_nvml) lazy.ask();
    check_named_gpus(host, *driver, request);
    Choice choice = choose_usable(host, *driver, request);
    if (check_requirements(request, *driver, choice, nullptr)) {
        lazy.ask();
        // Again, for what NVML says of a GPU may be worth a warning.
        choice = choose_usable(host, *driver, request);
        check_requirements(request, *driver, choice, &out.warnings);
    } else if (by_nvml && !driver->nvml_trouble.empty() && !choice.devices.empty()) {
        out.warnings.push_back(cat("NVML could not be asked about the GPUs of this step: ", driver->nvml_trouble,
                                   "; CUDA_VISIBLE_DEVICES is left as it is"));
    }
    out.warnings.insert(out.warnings.end(), choice.warnings.begin(), choice.warnings.end());
    bool driver_only = !request.all && request.devices.empty();
    if (choice.devices.empty() && !driver_only) {
        if (settings.required)
            tell(out, settings, "GPUs are asked for by NVIDIA_VISIBLE_DEVICES, and this step has none");
        return out;
    }
    DriverFiles files = find_driver_files(host, settings.roots.driver, driver->module_version, request.capabilities);
    check_versions(*driver, files, settings.roots);
    add_device_edits(out.edits, host, request, settings, *driver, choice);
    add_library_edits(
        out.edits, host, image, files,
        request.capabilities.contains(Capability::compute) ? compat_folder(image, driver->module_version) : "");
    add_plain(out.edits, host, files.programs, "a program of the driver", true);
    add_plain(out.edits, host, files.firmware, "firmware of the driver", false);
    add_plain(out.edits, host, files.sockets, "a service of the driver", false);
    add_plain(out.edits, host, files.configurations, "a configuration of the driver", false);
    add_mps(out, host, request);
    add_proc_edits(out.edits, host, *driver, choice);
    if (request.capabilities.contains(Capability::graphics) || request.capabilities.contains(Capability::display))
        add_profile_edits(out.edits, *driver, choice);
    out.cdi_hooks = cdi_hooks_of(out.edits);
    out.variables = task_variables;
    out.devices = visible_devices(*driver, request, choice);
    return out;
}

}  // namespace berth::hooks
