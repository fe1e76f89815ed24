// Commands in named containers: what `berth run --name` and `berth exec` share.
#pragma once
#include <string>

#include "runtime/cli/run_options.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/container/named/save.hh"

namespace berth::cli {

/// The containers of whoever calls, by site file and environment: those that all share, or those of one job.
ContainerFolder containers_of_caller(uint32_t job = 0);

/// A line for the user on standard error.
void show_note(const std::string& line);

/// The number of the descriptor that an MPI launcher gave this process, or nothing.
std::string pmi_descriptor();

/// Runs a command in the container options.name, which is joined, started or created; the exit code. With an empty
/// image it must be there, and is started with what was recorded at its creation. Throws Error.
int run_named(const RunOptions& options);

/// Saves when `code` is 0; the exit code of the whole.
int save_after(Saver& saver, int upper, int code, const std::string& output);

}  // namespace berth::cli
