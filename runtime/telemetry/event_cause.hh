// What an event takes from an error and from the process, for both programs.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/telemetry/event.hh"

namespace berth {

/// A pull that failed in berth-pull, which said why.
class PullError : public Error {
  public:
    PullError(const std::string& line, int exit_code, plan::Cause cause) : Error(line, exit_code), cause_(cause) {}
    plan::Cause cause() const { return cause_; }

  private:
    plan::Cause cause_;
};

/// The cause that the error itself shows (a full disk is one wherever it happens), else `otherwise`.
plan::Cause cause_of(const Error& error, plan::Cause otherwise);

/// "JOB.STEP" or "JOB" of the variables that Slurm sets; empty without them.
std::string job_name(const std::vector<std::string>& environment);

/// The host's; empty when it is not known.
std::string host_name();

}  // namespace berth
