// Commands in containers without a name: `berth run IMAGE`.
#pragma once
#include "runtime/cli/run_options.hh"

namespace berth::cli {

/// Runs a command in a container of options.request.image, of which this process becomes the server; the exit code.
/// Throws Error.
int run_new(const RunOptions& options);

}  // namespace berth::cli
