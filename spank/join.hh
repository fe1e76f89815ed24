// The system calls of a task that joins a container. Nothing of Slurm in it, so that tests can run it.
#pragma once
#include <string>

namespace berth::spank {

/// Enters the namespaces (the user's first: it gives the right to the other) and the working directory. Throws SysError.
void enter_namespaces(int user_namespace, int mount_namespace, const std::string& workdir);

/// Gives up every capability, also for programs executed later, sets no_new_privs and installs the seccomp program (an array of
/// struct sock_filter as bytes; empty for none). Throws Error.
void give_up_privileges(const std::string& seccomp_program);

}  // namespace berth::spank
