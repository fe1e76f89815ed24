#include "hooks/devices.hh"

#include <chrono>
#include <memory>
#include <optional>

#include "hooks/nvidia/nvidia.hh"
#include "hooks/rdma/rdma.hh"
#include "hooks/site/site_hooks.hh"
#include "runtime/host/run_program.hh"

namespace berth {

namespace {

constexpr auto nvml_patience = std::chrono::seconds(20);  // A GPU without persistence takes seconds to wake.

std::string root_of(const std::string& setting) { return setting == "/" ? "" : setting; }

std::unique_ptr<hooks::Rootfs> rootfs_of(const ContainerImage& image) {
    if (!image.directory.empty()) return std::make_unique<hooks::DirectoryRootfs>(image.directory);
    return std::make_unique<hooks::ServedRootfs>(image.index, image.layers);
}

/// Asked for by a program of its own: NVML opens devices and may hang.
std::optional<hooks::NvmlReport> nvml_of(const hooks::Host& host, const plan::Site& site) {
    std::string library = "libnvidia-ml.so.1";
    if (std::string root = root_of(site.devices.driver_root); !root.empty()) {
        hooks::DriverFiles files = hooks::find_driver_files(host, root, "", {hooks::Capability::utility});
        if (!files.libraries.empty()) library = files.libraries[0].source;
    }
    ProgramAnswer answer = run_program("/proc/self/exe", {"nvml", library}, "", nvml_patience);
    return answer.code == 0 ? std::optional(hooks::parse_nvml(answer.output)) : std::nullopt;
}

plan::Additions nvidia(const hooks::Host& host, const hooks::NvmlSource& nvml, const ContainerImage& image,
                       const plan::Site& site, const std::vector<std::string>& image_variables,
                       const std::vector<std::string>& environment) {
    if (site.devices.nvidia == plan::NvidiaMode::off) return {};
    hooks::NvidiaRequest request = hooks::nvidia_request(image_variables, environment);
    if (!request.wanted) return {};
    hooks::NvidiaSettings settings{site.devices.nvidia == plan::NvidiaMode::required,
                                   {root_of(site.devices.driver_root), root_of(site.devices.device_root)}};
    return hooks::nvidia_hook(host, *rootfs_of(image), request, settings, nvml);
}

plan::Additions rdma(const hooks::Host& host, const ContainerImage& image, const plan::Site& site,
                     const std::vector<std::string>& image_variables, const std::vector<std::string>& environment) {
    if (site.devices.rdma == plan::RdmaMode::off) return {};
    hooks::RdmaRequest request = hooks::rdma_request(image_variables, environment);
    if (site.devices.rdma == plan::RdmaMode::all && !request.wanted &&
        !hooks::variable(environment, "MELLANOX_VISIBLE_DEVICES"))
        request.wanted = request.all = true;
    request.userspace = site.devices.rdma_userspace;
    return request.wanted ? hooks::rdma_hook(host, *rootfs_of(image), request) : plan::Additions();
}

}  // namespace

plan::Additions device_additions(const hooks::Host& host, const hooks::NvmlSource& nvml, const ContainerImage& image,
                                 const plan::Site& site, const std::vector<std::string>& environment,
                                 const std::function<void(const std::string&)>& warn) {
    plan::Additions out;
    std::vector<std::string> image_variables = image.index.config().env;
    append(out, nvidia(host, nvml, image, site, image_variables, environment));
    append(out, rdma(host, image, site, image_variables, environment));
    std::unique_ptr<hooks::Rootfs> rootfs = rootfs_of(image);
    add_cdi_devices(out, host, *rootfs, site, environment);
    add_site_hooks(out, host, *rootfs, site, image_variables, environment);
    for (const std::string& line : out.warnings)
        if (warn) warn("warning: " + line);
    return out;
}

plan::Additions device_additions(const ContainerImage& image, const plan::Site& site,
                                 const std::vector<std::string>& environment,
                                 const std::function<void(const std::string&)>& warn) {
    hooks::Host host;
    return device_additions(host, [&] { return nvml_of(host, site); }, image, site, environment, warn);
}

}  // namespace berth
