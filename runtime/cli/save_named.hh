// Saving a named container from a command line.
#pragma once
#include <string>
#include <vector>

#include "runtime/container/named/folder.hh"

namespace berth::cli {

/// Becomes berth-pull, which writes the container into `output`. `flags` are those of its command "save". Throws Error.
[[noreturn]] void save_named(const ContainerFolder& folder, const std::string& name, const std::string& output,
                             const std::vector<std::string>& flags);

}  // namespace berth::cli
