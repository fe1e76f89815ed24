// Configuration scripts of `enroot start --conf` and `enroot batch`, which the node's bash runs.
#pragma once
#include <string>
#include <vector>

#include "runtime/enroot/start.hh"

namespace berth::cli {

/// What a script says.
struct ScriptConfig {
    std::vector<std::string> directives;  ///< NAME=VALUE of its lines "#ENROOT_NAME=VALUE"
    std::vector<std::string> environment, mounts;  ///< what its functions of these names print
    std::string rc;                                ///< the body of its function; empty: it has none
    bool has_hooks = false;
};

/// Runs `path` with `arguments` in the node's bash and asks it. Throws Error.
ScriptConfig read_script(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace berth::cli
