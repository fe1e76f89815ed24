// What an image and a job ask for by the variables NVIDIA_*. Pure.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hooks/slurm_grant.hh"

namespace berth::hooks {

/// Parts of the driver; the names are those of NVIDIA_DRIVER_CAPABILITIES.
enum class Capability { compute, utility, video, graphics, display, ngx, compat32 };

/// NVIDIA_REQUIRE_NAME=TEXT.
struct Requirement {
    std::string name;
    std::string text;
};

/// Devices of one kind, all or by number.
struct Numbers {
    bool all = false;
    std::set<unsigned> numbers;
    bool empty() const { return !all && numbers.empty(); }
};

struct NvidiaRequest {
    bool wanted = false;               ///< false: no part of the driver
    bool all = false;                  ///< every GPU of the step
    /// else these: indices, GPU:MIG, UUIDs, addresses on the PCI bus; none: the driver alone
    std::vector<std::string> devices;
    std::set<Capability> capabilities;
    std::vector<Requirement> requirements;  ///< empty when they are turned off
    /// nothing: not said; with compute the container has those that the step may open
    std::optional<Numbers> imex_channels;
    bool gdrcopy = false, gds = false, nvswitch = false;
    std::string mps_directory;        ///< of the job's CUDA_MPS_PIPE_DIRECTORY
    bool in_slurm = false;            ///< a step of Slurm
    SlurmGrant grant;                 ///< what it has granted; nothing outside of Slurm
    bool divided = false;             ///< the job's GPUs are divided for it (--mig): Slurm counts these as whole ones
    std::vector<std::string> warnings;
};

/// Reads the variables of the image and the job (NAME=VALUE); the job's count first. Throws Error for an unknown
/// capability or a channel out of range.
NvidiaRequest nvidia_request(const std::vector<std::string>& image, const std::vector<std::string>& job);

}  // namespace berth::hooks
