// NVIDIA GPUs: from what the node has and what is asked for to edits of the container.
#pragma once
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/makers.hh"
#include "hooks/nvidia/choose.hh"
#include "hooks/nvidia/driver.hh"
#include "hooks/nvidia/files.hh"
#include "hooks/nvidia/nvml.hh"
#include "hooks/nvidia/request.hh"
#include "hooks/nvidia/requirements.hh"
#include "hooks/rootfs.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

/// Who made the edits of this family.
inline const plan::Origin by_nvidia = plan::Origin::of_site("hook nvidia");

/// What a site decides about GPUs.
struct NvidiaSettings {
    bool required = false;  ///< a GPU that is asked for and not there is an error, not a warning
    DriverRoots roots;
};

/// The whole hook: discovery, choice, edits. `nvml` is asked only when something depends on it. Throws Error for what
/// cannot be had: a device of another job, a driver too old for the image, a driver whose parts do not fit.
plan::ContainerEdits nvidia_hook(const Host& host, const Rootfs& image, const NvidiaRequest& request,
                                 const NvidiaSettings& settings, const NvmlSource& nvml);

/// Adds what NVML says of the GPUs that this process may open: one of another step's may be one that makes it wait.
void ask_nvml(Driver& driver, const NvmlSource& nvml);

/// The node's GPUs and MIG devices, and what becomes of each in a container with this request. `unwanted` says why a
/// request that asks for nothing does so.
DeviceList list_nvidia(const Host& host, const NvidiaRequest& request, const NvidiaSettings& settings,
                       const NvmlSource& nvml, const std::string& unwanted);

/// Throws Error for the first requirement that the driver and a chosen GPU do not fulfil; the answer to "was NVML
/// needed" is the result. Without a GPU nothing is asked of the driver: programs that need one find none anyway, and
/// the same image prepares data on nodes without GPUs.
bool check_requirements(const NvidiaRequest& request, const Driver& driver, const Choice& choice,
                        std::vector<std::string>* unknown);

/// The driver's libraries as edits, with those of `compat` (a folder in the image; empty: none) before them for the
/// loader.
void add_library_edits(std::vector<plan::Edit>& edits, const Host& host, const Rootfs& image, const DriverFiles& files,
                       const std::string& compat);

/// The folder of CUDA's forward compatibility libraries in the image when they are to be used with this driver, else
/// "".
std::string compat_folder(const Rootfs& image, const std::string& driver_version);

/// The device nodes of a choice, checked: each is there and is the device it should be. Throws Error.
void add_device_edits(std::vector<plan::Edit>& edits, const Host& host, const NvidiaRequest& request,
                      const NvidiaSettings& settings, const Driver& driver, const Choice& choice);

/// /proc/driver/nvidia with what was chosen and nothing else.
void add_proc_edits(std::vector<plan::Edit>& edits, const Host& host, const Driver& driver, const Choice& choice);

/// The profile by which EGL and Vulkan see the chosen GPUs alone, and where it is.
void add_profile_edits(std::vector<plan::Edit>& edits, const Driver& driver, const Choice& choice);
/// Names of nvidia-ctk's hooks that are done here.
inline constexpr const char *hook_compat = "enable-cuda-compat", *hook_keep_nodes = "disable-device-node-modification",
                            *hook_profile = "update-application-profile";
inline const std::string application_profile = "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf";
inline const std::string driver_params = "/proc/driver/nvidia/params";

/// For `berth doctor`. `driver` is its version; empty: it is not loaded. `gpus` counts the nodes /dev/nvidiaN.
DeviceStatus nvidia_status(const std::string& driver, unsigned gpus);

}  // namespace berth::hooks
