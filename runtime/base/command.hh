// Finds the program of a command as exec would, and says in words why it cannot be run.
#pragma once
#include <string>
#include <vector>

namespace berth {

/// The path that execvp would run for `name` in this process's root and working directory with the given PATH.
/// Throws Error with exit code 127 (nowhere, or an interpreter it names is missing) or 126 (not executable, wrong architecture, wrong format).
std::string find_command(const std::string& name, const std::string& path_variable);

/// The value of the first "NAME=value" of that name; empty without one.
std::string value_in(const std::vector<std::string>& environment, const std::string& name);

}  // namespace berth
