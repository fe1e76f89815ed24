// What NVIDIA's library NVML alone can tell. It is asked in a program of its own, and only when something depends on
// it: to load it takes tens of milliseconds, and it opens devices.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace berth::hooks {

struct NvmlSlice {
    unsigned index = 0;  ///< as in NVIDIA_VISIBLE_DEVICES=GPU:INDEX
    unsigned gpu_instance = 0, compute_instance = 0;
    std::string uuid;
};

struct NvmlGpu {
    std::string bus;  ///< as normal_bus() writes it
    unsigned minor = 0;
    std::string uuid, arch, brand;
    bool mig = false;  ///< in MIG mode, with or without slices
    std::vector<NvmlSlice> slices;
};

struct NvmlReport {
    std::string driver, cuda;
    std::vector<NvmlGpu> gpus;
};

/// Nothing when NVML cannot be loaded. Called at most once.
using NvmlSource = std::function<std::optional<NvmlReport>()>;

/// Loads libnvidia-ml.so.1 from `library` (a path, or the name for the loader to find) and writes a report, a line a
/// fact. Throws Error.
std::string nvml_text(const std::string& library);

/// Reads such a report. Throws Error.
NvmlReport parse_nvml(const std::string& text);

}  // namespace berth::hooks
