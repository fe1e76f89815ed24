// RDMA adapters (InfiniBand, RoCE, EFA, Slingshot) and what message passing uses beside them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/makers.hh"
#include "hooks/rootfs.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

struct RdmaRequest {
    bool wanted = false;
    bool all = false;
    /// else these: indices in the order of the PCI bus, "mlx5_0", "uverbs0", addresses on the bus
    std::vector<std::string> devices;
    bool userspace = false;              ///< the node's libraries in place of the image's
    std::string topology;                ///< the job's NCCL_TOPO_FILE
    std::optional<uint64_t> locked_memory;  ///< bytes that a task may lock; nothing: not known
    /// NAME=VALUE for reductions in the network (SHARP), of what neither the job nor the image sets
    std::vector<std::string> environment;
};

/// Of MELLANOX_VISIBLE_DEVICES; the job's value counts before the image's, and paths are the job's alone to name.
RdmaRequest rdma_request(const std::vector<std::string>& image, const std::vector<std::string>& job);

/// An adapter with a verbs device.
struct Adapter {
    std::string name;   ///< "mlx5_0"
    std::string verbs;  ///< "uverbs2"
    std::string umad;   ///< "umad1"; empty: none
    std::string bus;    ///< "0000:1a:00.0"; empty for what is on no PCI bus
    bool open = false;  ///< the step may open the verbs device
};

/// In the order of the PCI bus. The names of sysfs are joined by what sysfs says: uverbs2 may well be mlx5_0.
std::vector<Adapter> find_adapters(const Host& host);

/// The kernel's driver of an adapter: "mlx5_core", "efa"; empty: not known.
std::string driver_of(const Host& host, const Adapter& adapter);

/// The whole hook. Throws Error for an adapter that was asked for and is not there or not the step's.
plan::ContainerEdits rdma_hook(const Host& host, const Rootfs& image, const RdmaRequest& request);

/// For `berth doctor`.
DeviceStatus rdma_status(size_t adapters);

}  // namespace berth::hooks
