// The system calls of a task that joins a container. Nothing of Slurm in it, so that tests can run it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/plan/messages.hh"

namespace berth::spank {

/// Gives every signal that this process catches its default action. From Slurm 24.11 on slurmstepd catches those that
/// end a task and hands them to a thread that the forked task does not have: scancel would be lost while the task waits
/// for its container.
void drop_inherited_handlers();

/// Enters the namespaces that came with `ready` (the user's first: it gives the right to the others) and the working
/// directory, and closes them. Before that it hides the process from the container's and closes every descriptor that
/// the command would not get. Throws Error, also when there are others than `ready` says.
void enter_namespaces(std::vector<Fd> namespaces, const plan::Ready& ready);

/// Gives up every capability but `capabilities` (bits 1 << CAP_*, of the container's namespaces), also for programs
/// executed later, sets no_new_privs, installs the seccomp program (an array of struct sock_filter as bytes; empty for
/// none) and leaves slurmd's session keyring. Throws Error.
void give_up_privileges(const std::string& seccomp_program, uint64_t capabilities = 0);

}  // namespace berth::spank
