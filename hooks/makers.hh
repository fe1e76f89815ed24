// Device families: each is a maker of edits. The list of them is in makers.cc, and nothing else names a family.
#pragma once
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/rootfs.hh"
#include "runtime/config/site.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

struct CdiEdits;

/// What makers are asked for a container.
struct DeviceRequest {
    const Host& host;
    const Rootfs& image;
    const plan::Site& site;
    const std::vector<std::string>& image_variables;  ///< NAME=VALUE
    const std::vector<std::string>& job;              ///< environment of the caller
    const std::vector<plan::ContainerEdits>& before;  ///< of the makers that stand before this one in the list
};

/// What a maker is asked for hooks that CDI specifications name.
struct CdiHookRequest {
    const Host& host;
    const Rootfs& image;
    const CdiEdits& asked;  ///< with the names of the hooks
    bool made;              ///< the container has edits of this maker already
};

struct CdiHookResult {
    std::vector<plan::Edit> edits;               ///< come before the nodes and mounts that are asked for
    std::vector<plan::CachedLibrary> preferred;  ///< take the place of mounted libraries of the same name
};

/// One line of `berth doctor`.
struct DeviceStatus {
    enum class Level { ok, note, warning, failure };
    Level level = Level::note;
    std::string subject;           ///< "GPUs"
    std::string text;              ///< what was found
    std::string advice = {};       ///< what to do; empty when nothing has to be done
    std::string pins_memory = {};  ///< "RDMA adapters": what is here and needs locked memory; empty: nothing
};

/// Who would start a container, asked what it would get.
struct DeviceListRequest {
    const Host& host;
    const plan::Site& site;
    const std::vector<std::string>& job;  ///< environment of the caller
};

/// A device of the node, and what becomes of it.
struct ListedDevice {
    std::string name;                ///< as the node has it: "nvidia3", "mlx5_0"
    std::string what = {};           ///< "NVIDIA H100 80GB HBM3", "MIG device"
    std::string id = {};             ///< a UUID; empty: not known
    std::string bus = {};            ///< its address; empty: on no PCI bus, or not known
    std::vector<std::string> nodes = {};
    bool open = false;               ///< this process may open all of them
    bool usable = true;              ///< false: no program of anybody's can use it
    bool given = false;              ///< a container would get it
    std::string why = {};            ///< why not; empty when it is given
};

/// The answer of a family, for `berth devices` and `berth doctor`. What is given is decided by the functions that a
/// start uses.
struct DeviceList {
    std::string about = {};              ///< "driver 570.86.15"; empty: nothing to say
    std::string asked = {};              ///< what the container is taken to ask for: "NVIDIA_VISIBLE_DEVICES=all"
    std::vector<ListedDevice> devices = {};
    std::vector<std::string> notes = {};
    std::string error = {};              ///< why such a container would not start
};

struct DeviceMaker {
    const char* vendor;  ///< "nvidia"; devices.disabled of the site names it so
    /// What this family adds. Throws Error for what is asked for and cannot be had.
    plan::ContainerEdits (*make)(const DeviceRequest&);
    /// Keys of the site that say where its files lie. When a user's variable has set one, all that this maker mounts is
    /// the user's choice.
    std::span<const char* const> keys = {};
    /// What the node has of it, and containers of this user at this site; null: nothing to tell.
    DeviceStatus (*status)(const Host&, const plan::Site&) = nullptr;
    /// The node's devices of it; null: the list says that this family has none to tell.
    DeviceList (*list)(const DeviceListRequest&) = nullptr;
    const char* cdi_kind = "";  ///< of its devices in a CDI specification: "nvidia.com/gpu"
    /// By which it is asked for devices in CDI's names as well; empty: by none.
    const char* cdi_variable = "";
    /// Whether the node has devices of it, so that its edits depend on what the caller with this environment may have.
    /// Costs a few system calls. Null: they never do.
    bool (*grants)(const Host&, const plan::Site&, const std::vector<std::string>& job) = nullptr;
    /// Names of hooks in CDI specifications (those of nvidia-ctk) that this maker does.
    std::span<const char* const> cdi_hooks = {};
    CdiHookResult (*do_cdi_hooks)(const CdiHookRequest&) = nullptr;
};

/// In the order in which they are asked: of edits that contradict each other, the later one wins.
std::span<const DeviceMaker* const> device_makers();

}  // namespace berth::hooks
