// AMD GPUs: from what the node has and what is asked for to edits of the container.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/makers.hh"
#include "hooks/slurm_grant.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

/// What a job and an image ask for by AMD_VISIBLE_DEVICES.
struct AmdRequest {
    bool wanted = true;  ///< what the step may open; the images of ROCm have no variable that asks
    bool named = false;  ///< by the job or the image; else the node gives what is there
    bool all = true;
    /// else these: indices, ranges of them, unique ids in hexadecimal, addresses on the PCI bus
    std::vector<std::string> devices;
    SlurmGrant grant = {};  ///< of a step of Slurm
};

/// The job's value counts before the image's.
AmdRequest amd_request(const std::vector<std::string>& image, const std::vector<std::string>& job);

/// A GPU, or a part of one (a partition, which programs take for a GPU).
struct AmdGpu {
    std::string bus;                   ///< "0000:03:00.0"; of a partition that of its GPU; empty: not known
    unsigned minor = 0;                ///< of the render node
    std::string card;                  ///< "card1"; empty: none
    Access access = Access::missing;   ///< of the render node
    std::optional<unsigned> kfd_node;  ///< its number in the kernel's topology, by which ROCm counts
    uint64_t unique_id = 0;            ///< 0: none; the parts of a GPU may share it
    unsigned position = 0;             ///< among the node's devices in Slurm's order: that of the render nodes
};

/// In the order of AMD's container toolkit, by which AMD_VISIBLE_DEVICES counts: by address, then by render node.
struct AmdNode {
    std::vector<AmdGpu> gpus;
    bool constrained = false;         ///< the step may not open some GPU of the node
    Access kfd = Access::missing;     ///< of /dev/kfd, which all programs of ROCm need
};

/// Empty, at the price of one system call, on a node without the driver.
bool has_amd_driver(const Host& host);
AmdNode find_amd(const Host& host);

/// What a file "properties" of the kernel's topology (/sys/class/kfd/kfd/topology/nodes/N) says of a GPU; nothing of
/// what is none, as a CPU.
struct KfdProperties {
    unsigned minor = 0;
    uint64_t unique_id = 0;
    std::string bus;
    bool operator==(const KfdProperties&) const = default;
};
std::optional<KfdProperties> parse_kfd_properties(const std::string& text);

struct AmdChoice {
    std::vector<size_t> gpus;  ///< positions in AmdNode::gpus, ascending
    std::vector<std::string> warnings;
};

/// Pure. Throws Error for a device that was asked for and is not the step's, or not there.
AmdChoice choose_amd(const AmdNode& node, const AmdRequest& request);

/// For the tasks: what they choose from, in the order in which ROCm counts.
std::vector<plan::VisibleDevice> visible_amd_devices(const AmdNode& node, const AmdRequest& request,
                                                     const AmdChoice& choice);

/// The whole hook. Throws Error as choose_amd().
plan::ContainerEdits amd_hook(const Host& host, const AmdRequest& request);

/// As ROCm writes a unique id: "GPU-ef2c1799a1f3e2ed".
std::string amd_uuid(uint64_t unique_id);

/// The node's GPUs, and what becomes of each in a container.
DeviceList list_amd(const Host& host, const std::vector<std::string>& job);

/// For `berth doctor`.
DeviceStatus amd_status(const AmdNode& node);

}  // namespace berth::hooks
