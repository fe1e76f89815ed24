// The user's folder in /run: the only thing that the plugin makes as root.
#pragma once
#include <sys/types.h>

#include "runtime/base/fd.hh"

namespace berth::spank {

/// Makes RUN/berth (root's, 0755) and RUN/berth/UID (the user's, 0700) when they are missing, following no symlink.
/// What is there already must have just that owner and mode; anything else is refused with Error and left alone. `run`
/// is a descriptor of /run.
void make_run_directory(int run, uid_t uid, gid_t gid);

/// The same in /run.
void make_run_directory(uid_t uid, gid_t gid);

/// The user's folder; nothing (and errno) when it is not there, or something is mounted on it. Never waits for what a
/// user does.
Fd open_run_directory(uid_t uid);

}  // namespace berth::spank
