// The step's helper: started as the user from slurmstepd, and waited for at the end.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth::spank {

struct HelperIdentity {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
};

struct StartedHelper {
    Fd socket;   ///< slurmstepd's end
    Fd process;  ///< pidfd
    bool in_leaf = false;
    bool has_devices = false;  ///< of HelperPlace::devices
    bool has_mounts = false;   ///< of HelperPlace::mounts
};

/// The cgroups of a helper, by descriptors of their folders, and its mounts; -1: none, or those of the caller.
struct HelperPlace {
    int leaf = -1;     ///< Leaf::folder(): the helper is born in it
    int devices = -1;  ///< the group whose device nodes it may open, no others (device_filter.hh)
    int mounts = -1;   ///< the mount namespace that it sees (job_mounts.hh)
};

/// Starts `PROGRAM WORD...` (`step` by default) with its socket as descriptor 3. Works as root and with privileges
/// dropped for a while (effective ids only), as in slurm_spank_user_init. Throws Error when the program is not root's
/// alone to write, or the start fails. Where the leaf or the mounts cannot be entered, it stays in the caller's.
///
/// The helper is forked twice. As a child of slurmstepd it would be killed by proctrack/linuxproc with the tasks
/// (scancel --signal reaches all descendants), be reaped by slurmstepd's wait for any child, and its number could be
/// taken by another process before we signal it. As an orphan it is known by its pidfd, and ends by the end of file on
/// its socket however slurmstepd ends.
StartedHelper start_helper(const std::string& program, const HelperIdentity& identity,
                           std::vector<std::string> words = {"step"}, HelperPlace place = {});

/// Kills the helper, which may have ended already.
void kill_helper(int process);

/// Waits up to `timeout_ms` for the helper to end, then kills it and waits up to a second more.
void wait_for_helper(int process, int timeout_ms);

}  // namespace berth::spank
