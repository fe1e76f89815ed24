// What NVIDIA's library NVML alone can tell. It is asked in a program of its own, and only when something depends on
// it: to load it takes tens of milliseconds, and it opens devices.
#pragma once
#include <functional>
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
    int error = 0;     ///< what NVML answered in place of all but `bus`; 0: nothing
    std::vector<NvmlSlice> slices;
};

struct NvmlReport {
    std::string driver, cuda;
    std::vector<NvmlGpu> gpus;
    std::string trouble = {};  ///< why nothing is known: "it gave no answer within 20 s"; empty: it has answered
};

/// Asks about the GPUs at these addresses. Called at most once.
using NvmlSource = std::function<NvmlReport(const std::vector<std::string>& buses)>;

/// Loads libnvidia-ml.so.1 from `library` (a path, or the name for the loader to find) and writes a report, a line a
/// fact. Without addresses it is about all GPUs that answer; with them no other GPU is touched. Throws Error.
std::string nvml_text(const std::string& library, const std::vector<std::string>& buses = {});

/// What to say of a GPU for which NVML answers so; empty when programs may be able to use it all the same, as when NVML
/// lacks the permission or does not support the question.
std::string unusable_gpu(int code);

/// Reads such a report. Throws Error.
NvmlReport parse_nvml(const std::string& text);

}  // namespace berth::hooks
