// Giving up capabilities, and what else a process may not keep.
#pragma once
#include <cstdint>

namespace berth::sandbox {

/// Empties the ambient, bounding, inheritable and effective sets of the calling thread, and the permitted one save `keep` (bits 1 << CAP_*).
/// Needs CAP_SETPCAP, or bounding set that is empty already. Throws SysError.
void drop_capabilities(uint64_t keep = 0);

/// Makes `wanted` (bits, must be permitted) effective in the calling thread and nothing else.
void raise_capabilities(uint64_t wanted);

/// prctl(PR_SET_NO_NEW_PRIVS): no later exec gains privileges.
void forbid_new_privileges();

/// No other process of the same user may look into this one, and a crash writes no core (which would wait for threads that wait for the crashed
/// ones).
void become_private();

/// Raises a negative oom_score_adj, inherited from slurmd, to 0: a container's server is no better than its tasks. Errors are ignored.
void reset_oom_score();

}  // namespace berth::sandbox
