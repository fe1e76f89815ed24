// Instances of the caller's: what `instance` and instance://NAME share.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/run_options.hh"
#include "runtime/container/named/instance.hh"
#include "runtime/request/request.hh"

namespace berth::cli {

/// The instance of that name, which runs. Throws Error when there is none.
InstanceRecord instance_named(const std::string& name);

/// Throws Error when no instance can be started by that name.
void check_new_instance(const std::string& name);

/// The files that an instance prints to, of which the folder is made: standard output and error. They are where
/// Apptainer has them: HOME/.apptainer/instances/logs/HOST/USER, or below APPTAINER_CONFIGDIR. Throws Error.
std::pair<std::string, std::string> instance_logs(const plan::Caller& caller,
                                                  const std::vector<std::string>& environment, const std::string& name);

/// What cannot be written is a warning: the instance runs.
void write_pid_file(const std::string& path, const InstanceRecord& record, const ApptainerSettings& settings);

/// Runs a command in the instance, `options.command`, or what its image is for; the exit code. Throws Error.
int run_in_instance(const RunOptions& options, const InstanceRecord& record);

}  // namespace berth::cli
