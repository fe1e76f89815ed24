// A command that runs in a container as a child of this process, and the wait for its end.
#pragma once
#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/container_start.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// The signals that a user, a shell or a batch system sends to a command, and SIGCHLD. To be blocked before threads start.
sigset_t forwarded_signals();

/// `environment` (NAME=VALUE) with `changes` made to it.
std::vector<std::string> changed_environment(std::vector<std::string> environment, const std::vector<plan::EnvironmentChange>& changes);

/// Starts `command` in the container, by joining it; it ends with this process. What forbids it is said on standard error, and becomes the exit code.
/// Throws SysError when there can be no child.
pid_t start_task(const StartedContainer& container, const std::vector<std::string>& command, const std::vector<std::string>& environment);

/// Passes the `watched` signals (which are blocked) on to the command until it ends; returns its exit code as a shell would. When `connection` (-1: none)
/// is closed by its other end, the container has gone: the command is killed, and Error is thrown.
int attend_task(pid_t task, const sigset_t& watched, int connection = -1);

}  // namespace berth
