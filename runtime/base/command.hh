// Finds and runs the program of a command as execvpe() would, and says in words why it cannot be run.
#pragma once
#include <string>
#include <vector>
#include <vector>

namespace berth {

/// Whose root a path is in, for messages.
inline constexpr const char* root_of_container = "in the container";

/// The path that execvp would run for `name` in this process's root and working directory with the given PATH; `where`
/// says to the user whose root that is. Throws Error with exit code 127 (nowhere, or an interpreter it names is
/// missing) or 126 (not executable, wrong architecture, wrong format).
std::string find_command(const std::string& name, const std::string& path_variable,
                         const char* where = root_of_container);

/// The same, and last of all a name in the working directory: slurmstepd leaves one that it does not find as it is, and
/// execve finds it there.
std::string find_command_or_file(const std::string& name, const std::string& path_variable);

/// Becomes the command, whose program is found as above by the PATH of `environment` (NAME=VALUE). Nothing is looked at
/// beforehand: only what could not be executed is explained, as find_command() does. Throws Error; `command` has at
/// least one word.
[[noreturn]] void execute_command(std::vector<std::string> command, std::vector<std::string> environment);

}  // namespace berth
