// The first process of a container that has a pid namespace of its own.
#pragma once
#include "runtime/base/fd.hh"
#include "runtime/base/pid.hh"
#include "runtime/plan/plan.hh"

namespace berth::sandbox {

/// What start_init() made.
struct Init {
    Pid process;  ///< a child of the caller, which only a wait with __WALL sees; with it its namespace's processes end
    Fd pid_namespace;
    Fd file_system;      ///< a mount of /proc of that namespace, not attached anywhere
};

/// Starts the first process of a new pid namespace: it reaps what loses its parent, and ends with the calling thread.
/// It has no privileges, no descriptors, and signals from inside do nothing to it. Call with CAP_SYS_ADMIN in the user
/// namespace, in a mount namespace that shows the node's /proc. Throws Error.
Init start_init();

/// Whether containers of this process can have processes of their own, as a child finds out.
bool may_have_own_processes(const plan::Identity& identity);

}  // namespace berth::sandbox
