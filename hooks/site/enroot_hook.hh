// Hooks that a site has written for Enroot (hooks.d/*.sh; src/runtime.sh and doc/configuration.md of Enroot 4.1.2), run
// as programs of the site: for the mounts and variables that they add.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

/// True for a program of hooks.folder that is a hook of Enroot's: "97-vulkan-icd.enroot".
bool is_enroot_hook(const std::string& name);

/// What such a hook has left.
struct EnrootHookFiles {
    std::string environ;                   ///< ENROOT_ENVIRON
    std::string mounts;                    ///< ENROOT_MOUNTS
    std::vector<std::string> directories;  ///< that it has made below ENROOT_ROOTFS, as the container knows them
};

/// ENROOT_ENVIRON as a hook finds it: the image's variables (NAME=VALUE), a line each. Pure.
std::string enroot_environ(const std::vector<std::string>& image_variables);

/// What the container gets of it: `before` is the ENROOT_ENVIRON that the hook has found. Pure. Throws Error naming
/// `origin` for a line that has no place in a container.
plan::ContainerEdits enroot_hook_edits(const std::string& before, const EnrootHookFiles& left, const plan::Site& site,
                                       const plan::Origin& origin);

/// Runs a program with these variables (NAME=VALUE). Throws Error for one that fails.
using RunHook = std::function<void(const std::string& path, const std::vector<std::string>& environment)>;

/// Has `run` run the hook at `path` with the caller's variables, those of `job`, and ENROOT_PID, ENROOT_ROOTFS (an
/// empty folder), ENROOT_ENVIRON and ENROOT_MOUNTS. Throws Error for one that fails or that writes files into the
/// container.
EnrootHookFiles run_enroot_hook(const std::string& path, const std::vector<std::string>& image_variables,
                                const std::vector<std::string>& job, const RunHook& run);

}  // namespace berth::hooks
