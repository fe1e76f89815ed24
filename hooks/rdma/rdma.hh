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
    bool named = false;  ///< by the job or the image; else the site gives what is there
    /// else these: indices in the order of find_adapters(), "mlx5_0", "uverbs0", "cxi0", addresses on the PCI bus
    std::vector<std::string> devices;
    bool userspace = false;              ///< the node's libraries in place of the image's
    std::string topology;                ///< the job's NCCL_TOPO_FILE
    bool tells = false;                     ///< from this node come the lines about the whole step, which has several
    std::optional<uint64_t> locked_memory;  ///< bytes that a task may lock; nothing: not known
    /// NAME=VALUE for reductions in the network (SHARP), of what neither the job nor the image sets
    std::vector<std::string> environment;
};

/// Of MELLANOX_VISIBLE_DEVICES; the job's value counts before the image's, and paths are the job's alone to name. As
/// Enroot, which shows all of the node's /dev, `mode` automatic takes a job that names nothing as if it named all,
/// whatever the image has.
RdmaRequest rdma_request(plan::RdmaMode mode, const std::vector<std::string>& image,
                         const std::vector<std::string>& job);

/// An adapter with a verbs device, or one of Slingshot.
struct Adapter {
    std::string name;                ///< "mlx5_0", "cxi0"
    std::string verbs;               ///< "uverbs2"; empty for Slingshot's
    std::vector<std::string> umads;  ///< "umad1", one a port that can be managed
    std::string bus;                 ///< "0000:1a:00.0"; empty for what is on no PCI bus
    bool open = false;               ///< the step may open its node
    /// "/dev/infiniband/uverbs2", "/dev/cxi0"
    std::string node() const;
};

/// Those with a verbs device in the order of the PCI bus, then Slingshot's. The names of sysfs are joined by what sysfs
/// says: uverbs2 may well be mlx5_0.
std::vector<Adapter> find_adapters(const Host& host);

/// The kernel's driver of an adapter: "mlx5_core", "efa"; empty: not known.
std::string driver_of(const Host& host, const Adapter& adapter);

/// Those of `adapters` that a container gets. Throws Error for one that was asked for and is not there or not the
/// step's.
std::vector<Adapter> chosen_adapters(const Host& host, const std::vector<Adapter>& adapters,
                                     const RdmaRequest& request);

/// Nodes /dev/cxiN are looked for up to this number.
inline constexpr unsigned cxi_limit = 16;

/// The node's adapters, and what becomes of each in a container.
DeviceList list_rdma(const Host& host, plan::RdmaMode mode, const std::vector<std::string>& job);

/// The whole hook. Throws Error for an adapter that was asked for and is not there or not the step's.
plan::ContainerEdits rdma_hook(const Host& host, const Rootfs& image, const RdmaRequest& request);

/// Why a container made so has none of these adapters, which MPI and NCCL want between nodes, and what to do; empty
/// when it has some, or the job has asked for none. `mode` and `job` as in rdma_request().
std::string missing_adapters(plan::RdmaMode mode, const std::vector<Adapter>& adapters, const RdmaRequest& request,
                             const std::vector<std::string>& job);

/// For `berth doctor`: what containers of this user have of the node's adapters.
DeviceStatus rdma_status(const std::vector<Adapter>& adapters, plan::RdmaMode mode);

}  // namespace berth::hooks
