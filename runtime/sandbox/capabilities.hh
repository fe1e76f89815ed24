// Giving up capabilities, and what else a process may not keep.
#pragma once
#include <cstdint>

namespace berth::sandbox {

/// Leaves in the bounding set of the calling thread, and of all that it starts, at most `bounding` (bits 1 << CAP_*):
/// what they execute can have no more. Needs CAP_SETPCAP where there is anything to drop. Throws SysError.
void limit_bounding_set(uint64_t bounding);

/// Empties the ambient, inheritable and effective sets of the calling thread, and the permitted and bounding ones save
/// `keep` and `bounding` (bits). Needs CAP_SETPCAP, or a bounding set that has no more already. Throws SysError.
void drop_capabilities(uint64_t keep = 0, uint64_t bounding = 0);

/// Leaves the calling thread and what it executes `kept` (which must be permitted) and nothing else, whatever its user
/// id. Needs the same. Throws SysError.
void keep_capabilities(uint64_t kept);

/// Makes `wanted` (bits, must be permitted) effective in the calling thread and nothing else; `kept` stay permitted.
void raise_capabilities(uint64_t wanted, uint64_t kept = 0);

/// prctl(PR_SET_NO_NEW_PRIVS): no later exec gains privileges.
void forbid_new_privileges();

/// No other process of the same user may look into this one, and a crash writes no core (which would wait for threads
/// that wait for the crashed ones).
void become_private();

/// Raises a negative oom_score_adj, inherited from slurmd, to 0: a container's server is no better than its tasks.
/// Errors are ignored.
void reset_oom_score();

}  // namespace berth::sandbox
