// The tracker of a step as a process beside srun: connections, time, and the Tracker between them.
#pragma once
#include <string>

#include "runtime/base/fd.hh"

namespace berth::pull::nodes {

/// Answers the `nodes` nodes of a step at the socket `listening`, which does not block, until it is killed: what they
/// agree on, and how they share. `secret` is the step's. Throws Error.
[[noreturn]] void serve_tracker(Fd listening, const std::string& secret, unsigned nodes);

}  // namespace berth::pull::nodes
