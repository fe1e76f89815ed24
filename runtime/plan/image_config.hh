// What an image says about the process to run in it: data only, never a choice of host mounts, devices, hooks or
// commands.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace berth::plan {

/// The part of the OCI image config that berth uses; absent and null members are empty.
struct ImageConfig {
    std::vector<std::string> env;  ///< NAME=VALUE, verbatim and in order
    std::vector<std::string> entrypoint;
    std::vector<std::string> cmd;
    std::string working_dir;
    std::string user;  ///< shown only: the process runs as the caller
    std::string architecture;
    std::vector<std::string> volumes;
    bool of_enroot = false;     ///< Enroot left it in the image's files, with ${NAME} for the caller's variables
    uint32_t unread_lines = 0;  ///< of scripts in /.singularity.d/env, which do more than set a variable to a value
};

}  // namespace berth::plan
