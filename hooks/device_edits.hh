// Changes of a container in the vocabulary of CDI (container device interface): what CDI specifications and a site's
// programs ask for.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooks/host.hh"
#include "hooks/rootfs.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

struct DeviceEdits {
    struct Mount {
        std::string source, target;  ///< no source: a tmpfs
        bool read_only = false, no_exec = false;
        bool operator==(const Mount&) const = default;
    };
    std::vector<std::string> environment;                          ///< NAME=VALUE
    std::vector<std::pair<std::string, std::string>> nodes;       ///< path on the node, path in the container
    std::vector<Mount> mounts;
    std::vector<std::pair<std::string, std::string>> links;       ///< path, target
    std::vector<std::string> library_folders;                      ///< whose mounted libraries the loader is to find
    std::vector<std::pair<std::string, unsigned>> modes;          ///< directory, its mode
    /// CUDA's forward compatibility libraries may come first
    bool cuda_compat = false;
    /// NVIDIA's driver library is told to make no device nodes, and sees the nodes' GPUs alone
    bool keep_nodes = false;
    bool application_profile = false;                              ///< a profile names those GPUs to EGL and Vulkan
    std::vector<std::string> warnings;
    bool operator==(const DeviceEdits&) const = default;
    void append(const DeviceEdits& more);
};

/// A line a change, fields with tabs between them: how the program that reads JSON tells the one that does not link it.
/// Throws Error for a text with control characters in it, naming `what`.
std::string lines_of(const DeviceEdits& edits, const std::string& what);
/// Throws Error naming `what`.
DeviceEdits parse_device_edits(std::string_view lines, const std::string& what);

/// The plan's edits. Throws Error for a path that no mount may have, naming `origin`.
plan::Additions additions_of(const DeviceEdits& edits, const Host& host, const Rootfs& image,
                             const std::string& origin);

/// The other way round: mounts, nodes, links and libraries of additions, without what CDI has no words for.
DeviceEdits device_edits_of(const plan::Additions& additions);

/// Whether they have a /proc/driver/nvidia of the container's own.
bool shows_driver(const plan::Additions& additions);

}  // namespace berth::hooks
