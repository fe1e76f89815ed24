// The NVIDIA driver of a node and its GPUs, as the file system shows them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/nvidia/nvml.hh"

namespace berth::hooks {

/// A MIG device: a compute instance of a GPU instance.
struct Slice {
    unsigned gpu_instance = 0, compute_instance = 0;
    /// Minor numbers below /dev/nvidia-caps; nothing when the driver does not tell them.
    std::optional<unsigned> gpu_cap, compute_cap;
    bool open = false;      ///< the step may open both
    std::string uuid;       ///< known to NVML only
    unsigned index = 0;     ///< NVML's, on its GPU
    bool indexed = false;
    unsigned position = 0;  ///< among the node's devices in Slurm's order
};

struct Gpu {
    unsigned minor = 0;
    std::string bus;   ///< "0000:3b:00.0", also the name in /proc/driver/nvidia/gpus
    std::string uuid;  ///< empty when the driver hides it
    std::string model;
    Access access = Access::missing;  ///< of /dev/nvidiaN
    bool mig = false;                 ///< NVML: in MIG mode
    std::vector<Slice> slices;
    unsigned position = 0;
    std::string arch, brand;  ///< NVML
    bool excluded = false;    ///< a parameter of the driver has it left out
    int nvml_error = 0;       ///< NVML's answer about it; 0: none, or no error
};

/// A GPU that the driver knows and no program can use.
struct UnusableGpu {
    std::string bus, uuid;  ///< the UUID may be empty
    std::string why;        ///< a part of a sentence: "the driver ..."
};

/// A node /dev/nvidiaN without a usable GPU of the driver's: of one of those above, or of one that another driver has.
struct StrayNode {
    unsigned minor = 0;
    Access access = Access::missing;
    unsigned position = 0;  ///< Slurm counts it
};

/// Where the parts of the driver lie, when not in their usual places.
struct DriverRoots {
    std::string driver;  ///< of its libraries and programs: "" or "/run/nvidia/driver"
    std::string devices;  ///< of the folder dev
};

struct Driver {
    std::string module_version;         ///< of the kernel module: "570.86.15"
    std::string cuda;                   ///< newest CUDA it runs, by its branch or NVML; empty: not known
    std::map<std::string, unsigned> majors;  ///< of /proc/devices: "nvidia", "nvidia-uvm", ...
    std::string params;                 ///< of /proc/driver/nvidia/params; empty: none
    std::vector<Gpu> gpus;              ///< in the order of their addresses, as CUDA counts
    std::vector<UnusableGpu> unusable;
    std::vector<StrayNode> strays;
    bool constrained = false;           ///< the step may not open some GPU of the node
    std::string nvml_trouble;           ///< NVML was asked and has not answered: why
};

/// Nothing on a node without a driver. Throws Error for a driver whose files make no sense.
bool has_driver(const Host& host);
std::optional<Driver> find_driver(const Host& host, const DriverRoots& roots);

/// Adds what NVML knows.
void add_nvml(Driver& driver, const NvmlReport& report);

/// Path of a node in the container; on the host it lies below DriverRoots::devices.
std::string gpu_node(const Gpu& gpu);
std::string cap_node(unsigned minor);

/// "570.86.15" of /proc/driver/nvidia/version; empty when there is none.
std::string parse_module_version(const std::string& text);
/// Names and numbers of the character devices in /proc/devices.
std::map<std::string, unsigned> parse_majors(const std::string& text);
/// The number of the node /dev/nvidia-caps/nvidia-capN that a file "access" below /proc/driver/nvidia/capabilities
/// names. /proc/driver/nvidia-caps/mig-minors has the same numbers, but for all instances that 32 GPUs could have: 4322
/// lines, of which the kernel takes 3 ms to write the first.
std::optional<unsigned> parse_cap_minor(const std::string& text);
/// The fields of /proc/driver/nvidia/gpus/BUS/information; nothing without a device minor.
std::optional<Gpu> parse_gpu(const std::string& text);
/// The newest CUDA that a driver's branch runs ("12.8"), by NVIDIA's release notes; empty for a branch newer than this
/// list.
std::string cuda_of_driver(const std::string& version);

}  // namespace berth::hooks
