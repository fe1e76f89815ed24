// What `enroot create` and `enroot load` share.
#pragma once
#include <string>

#include "runtime/cli/enroot/containers.hh"
#include "runtime/cli/run_options.hh"

namespace berth::cli {

/// Makes the container `name` of options.request.image; with `force`, or ENROOT_FORCE_OVERRIDE, in place of another one
/// of that name. Throws Error.
void create_container(const FrontEnd& front, const std::string& name, bool force, const RunOptions& options);

}  // namespace berth::cli
