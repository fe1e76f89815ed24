// Finding and ending the processes of a container.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace berth::sandbox {

/// Kills every process that lives in the user namespace of the calling process or below it, except the calling process
/// and `spared`, again and again until there is none, and waits for their ends. `proc` is a directory descriptor of the
/// node's /proc, `user_namespace` of the caller's user namespace. CAP_SYS_PTRACE must be effective to see processes
/// that hid themselves (prctl(PR_SET_DUMPABLE)). Returns false when processes were left at the end of `timeout`.
/// Throws SysError when /proc cannot be read.
bool kill_inhabitants(int proc, int user_namespace, std::chrono::milliseconds timeout,
                      const std::vector<pid_t>& spared = {});

/// As kill_inhabitants(), for the processes whose root directory is a mount of the source `source`: what a helper that
/// was killed left behind.
bool kill_users_of_root(int proc, const std::string& source, std::chrono::milliseconds timeout);

/// The processes that live in the user namespace with inode number `user_namespace`, or below it, as far as the caller
/// may see that.
std::vector<pid_t> inhabitants(int proc, ino_t user_namespace);

}  // namespace berth::sandbox
