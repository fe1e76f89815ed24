// The options that variables stand for: BERTH_CONTAINER_IMAGE and PYXIS_CONTAINER_IMAGE for --container-image, and so
// on. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/options.hh"

namespace berth::plan {

/// An option that a variable stands for.
struct EnvironmentOption {
    std::string name;     ///< of srun, without the dashes
    std::string value;    ///< "" for a flag
    std::string problem;  ///< the line of the error when the variable is used; empty: it is fine
};

/// "BERTH_CONTAINER_MOUNT_HOME" of the prefix "BERTH_" and "container-mount-home"; options that start with "no-" have
/// no variable of their own.
std::string variable_name(const char* prefix, std::string_view option);

/// What the variables among `environment` (NAME=VALUE) ask for; an empty value is as good as none. Flags take the words
/// of parse_bool(), and "no" stands for the opposite option. Two variables that do not agree are a problem of the later
/// one; nothing is thrown.
std::vector<EnvironmentOption> environment_options(const std::vector<std::string>& environment);

/// What the variables of Enroot ask for that have an option: ENROOT_REMAP_ROOT, ENROOT_MOUNT_HOME and
/// ENROOT_ROOTFS_WRITABLE, where no variable of environment_options() says something else.
std::vector<EnvironmentOption> enroot_options(const std::vector<std::string>& environment);

/// Adds what the environment says to the options given so far, which win over it. Variables of Enroot count
/// only where a container is asked for. Throws Error for a problem with a variable that would be used.
void add_environment_options(GivenOptions& options, const std::vector<std::string>& environment);

}  // namespace berth::plan
