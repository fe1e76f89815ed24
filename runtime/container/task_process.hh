// A command that runs in a container as a child of this process, and the wait for its end.
#pragma once
#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/pid.hh"
#include "runtime/container/start.hh"
#include "runtime/container/terminal.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// The signals that a user, a shell or a batch system sends to a command, and SIGCHLD. To be blocked before threads
/// start.
sigset_t forwarded_signals();

/// `environment` (NAME=VALUE) with `changes` made to it.
std::vector<std::string> changed_environment(std::vector<std::string> environment,
                                             const std::vector<plan::EnvironmentChange>& changes);

/// Less of `changes` (to `environment`) those of the variables `names`, whose value in `environment` counts: the helper
/// of a container does not know what one task wants for itself.
std::vector<plan::EnvironmentChange> changes_but(const std::vector<std::string>& names,
                                                 std::vector<plan::EnvironmentChange> changes,
                                                 const std::vector<std::string>& environment);

/// A command that was started.
struct Task {
    Pid process;
    std::unique_ptr<TerminalRelay> terminal;  ///< none where it has the caller's streams
};

/// Tells what forbids a start, in the process that was to be the command; the result is the exit code.
using StartComplaint = std::function<int(const Error& error)>;

/// Starts `command` in the container, by joining it; it ends with this process. With `terminal` it gets one of the
/// container's, which is relayed to the caller's. What forbids the start is said on standard error, and becomes the
/// exit code, unless `complain` does otherwise. Throws SysError when there can be no child.
Task start_task(const StartedContainer& container, const std::vector<std::string>& command,
                const std::vector<std::string>& environment, bool terminal = false,
                const StartComplaint& complain = {});

/// Passes the `watched` signals (which are blocked) on to the command until it ends; returns its exit code as a shell
/// would. Stops when the command is stopped as a shell's job is. Reaps all children of this process. When `connection`
/// (-1: none) is closed by its other end, or something comes over it, the container has gone: the command is killed,
/// and Error is thrown.
int attend_task(Task& task, const sigset_t& watched, int connection = -1);

}  // namespace berth
