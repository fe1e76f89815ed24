// The variables of a container as Apptainer has them: which of the node's get in, and which the user sets. Pure.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/apptainer/flags.hh"

namespace berth::apptainer {

/// What is set in the container, NAME=VALUE, each name once.
struct Variables {
    std::vector<std::string> set = {};       ///< to the very value
    /// with ${NAME} of the container's own, as `env` of an environment has them
    std::vector<std::string> expanded = {};
    std::vector<std::string> evaluated = {};  ///< NAME=TEXT: what the container's shell makes of TEXT in double quotes
    std::vector<std::string> warnings = {};
};

/// What $UID and $GID stand for.
struct Ids {
    uint32_t uid = 0, gid = 0;  ///< in the container
};

/// By --env before the files of --env-file (`files`, each the lines of one) before APPTAINERENV_* before
/// SINGULARITYENV_* of `environment`; PREPEND_PATH, APPEND_PATH and PATH are about the container's PATH, the first two
/// with LD_LIBRARY_PATH about that. Without --no-eval a value is read as a shell reads it in double quotes, by no shell
/// where it has variables alone. Throws Error.
Variables variables_of(const Given& given, const std::vector<std::vector<std::string>>& files,
                       const std::vector<std::string>& environment, const Ids& ids);

/// The lines NAME=VALUE of an environment file, the values without their quotes. Throws Error that names the line for
/// anything that a shell would have to read.
std::vector<std::string> lines_of_file(std::string_view content, const std::string& path);

/// Whether a variable of the node gets into the container where neither image nor user sets it.
std::function<bool(const std::string& name)> passing(const Given& given);

}  // namespace berth::apptainer
