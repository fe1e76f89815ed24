// What makers of edits have in common: mounts of the node's files and device nodes, and where an image's libraries lie.
#pragma once
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/rootfs.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

/// A bind of `source`, below the host's root, onto `target`.
plan::Edit bind_edit(const Host& host, const std::string& source, const std::string& target, const plan::Origin& origin,
                     const std::string& reason);

/// The same of a device node.
plan::Edit node_edit(const Host& host, const std::string& source, const std::string& target, const plan::Origin& origin,
                     const std::string& reason);

/// The same, read-only.
plan::Edit file_edit(const Host& host, const std::string& source, const std::string& target, const plan::Origin& origin,
                     const std::string& reason);

/// The node at `path` when the host has one that the step may open; false when it does not.
bool add_open_node(std::vector<plan::Edit>& edits, const Host& host, const std::string& path,
                   const plan::Origin& origin, const std::string& reason);

/// Whether a job with this environment is told by this node what all nodes of the step would tell: by its first one,
/// and outside of Slurm by each.
bool tells(const std::vector<std::string>& job);

/// Where libraries go in the container and how its loader finds them.
struct LibraryPlace {
    std::string folder;         ///< "/usr/lib/x86_64-linux-gnu"
    std::string narrow_folder;  ///< for 32-bit libraries
    std::string musl_path;      ///< not empty: the loader is musl's
};
LibraryPlace library_place(const Rootfs& image);

/// Where a loader looks without being told, on distributions of both kinds.
std::vector<std::string> usual_library_folders();

/// "0000:3b:00.0" of the spellings of an address on the PCI bus; empty for what is none.
std::string normal_bus(const std::string& text);

}  // namespace berth::hooks
