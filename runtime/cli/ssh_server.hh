// The server's end of `ssh berth-JOB`: an sshd of the node for one connection, run by the user in a step of the job.
#pragma once
#include "runtime/cli/job_container.hh"

namespace berth::cli {

/// Serves ssh on this process's standard input and output until the connection or the container ends. Each session is a
/// `berth enter --session-of` in the container. Returns the exit code; throws Error.
int serve_ssh(const JobContainer& container);

}  // namespace berth::cli
