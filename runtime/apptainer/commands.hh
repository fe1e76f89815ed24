// What runs in a container of Apptainer's users: the words of commands. Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/apptainer/variables.hh"

namespace berth::apptainer {

/// The words before a command whose image has scripts in /.singularity.d/env that set variables by more than a value,
/// whose variables need a shell, or of which an app is wanted (else `app` is empty): the container's shell reads the
/// scripts, the app's after the image's, and `set` and what is expanded and evaluated of `variables` hold after them.
std::vector<std::string> script_reader(const std::vector<std::string>& set, const Variables& variables,
                                       const std::string& app = {});

/// What `run` and `test` (`script` "runscript" or "test") start of an app.
std::vector<std::string> app_command(const std::string& app, const char* script,
                                     const std::vector<std::string>& arguments);

/// The image's file that `instance start` starts where it is there; `app`: of --app, or empty.
std::string start_script(const std::string& app);

/// What `shell` runs; `asked`: of --shell, or empty.
std::vector<std::string> shell_command(const std::string& asked);

/// What `test` runs.
std::vector<std::string> test_command(const std::vector<std::string>& arguments);

}  // namespace berth::apptainer
