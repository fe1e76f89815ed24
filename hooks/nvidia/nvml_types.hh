// What is used of NVML's interface: names, numbers and sizes as NVIDIA's public header nvml.h has them. The unit test
// hooks_nvml_test.cc compares them with that header where a CUDA Toolkit is installed.
#pragma once

namespace berth::hooks::nvml {

using Device = void*;

/// nvmlReturn_t.
enum Result : int {
    success = 0,
    not_supported = 3,
    no_permission = 4,
    not_found = 6,
    insufficient_power = 8,
    driver_not_loaded = 9,
    irq_issue = 11,
    function_not_found = 13,
    gpu_is_lost = 15,
    reset_required = 16,
    operating_system = 17,
    version_mismatch = 18,
};

/// nvmlPciInfo_t.
struct PciInfo {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/// Not less than NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE.
inline constexpr unsigned text_size = 96;

/// nvmlBrandType_t in order, spelled as requirements do.
inline constexpr const char* brands[] = {
    "unknown",   "quadro",      "tesla",     "nvs",        "grid",      "geforce",
    "titan",     "nvidiavapps", "nvidiavpc", "nvidiavcs",  "nvidiavws", "nvidiacloudgaming",
    "quadrortx", "nvidiartx",   "nvidia",    "geforcertx", "titanrtx"};

}  // namespace berth::hooks::nvml
