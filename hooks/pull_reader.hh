// JSON that says how a container is to be changed, read by berth-pull: `berth` itself does not link JSON.
#pragma once
#include <string>
#include <vector>

#include "hooks/cdi_edits.hh"

namespace berth::hooks {

/// What `berth-pull cdi` with these arguments and `input` on its standard input makes of it. Throws Error naming
/// `what`.
CdiEdits read_by_pull(std::vector<std::string> arguments, const std::string& input, const std::string& what);

}  // namespace berth::hooks
