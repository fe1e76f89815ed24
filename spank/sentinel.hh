// Notices that Slurm ends a step while its container is saved: the tasks have ended by then, and no callback tells a
// plugin of the signal.
#pragma once
#include <sys/types.h>

#include <vector>

#include "runtime/base/fd.hh"

namespace berth::spank {

/// A process that does nothing, placed where Slurm looks for the tasks of the step: what scancel, a time limit or a
/// preemption sends to them ends it.
class Sentinel {
  public:
    Sentinel() = default;
    Sentinel(const Sentinel&) = delete;
    Sentinel& operator=(const Sentinel&) = delete;
    /// As end().
    ~Sentinel();

    /// Remembers the cgroups of a task (a child of this process), which Slurm removes only with the step. To be called
    /// when slurmstepd has put it there.
    void learn_from(pid_t task);

    /// Starts the process, as a child of the caller's in these cgroups. Throws SysError.
    void start();

    /// After start(): false when Slurm's signals might not reach the process, so that whoever waits for its end must
    /// not do so for ever.
    bool sees_signals() const { return sees_signals_; }

    /// Ends the process, if it was started, and waits for its end.
    void end();

    /// Readable when the process was ended by somebody else; -1 before start() and after end().
    int descriptor() const { return process_.get(); }

  private:
    std::vector<Fd> groups_;  ///< files cgroup.procs
    bool found_by_descent_ = false;  ///< a task is in none of Slurm's cgroups
    bool sees_signals_ = false;
    pid_t pid_ = -1;
    Fd process_;  ///< pidfd
};

}  // namespace berth::spank
