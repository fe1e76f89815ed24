// When the tasks of a step should long have ended, and wait for their file server instead.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string_view>

namespace berth::spank {

/// What has been done to a process.
enum class Fate {
    lives,
    ends,    ///< a signal that it does not catch ends it; it is only not there yet
    killed,  ///< SIGKILL was sent to it
};

/// From the text of /proc/PID/status, see proc(5).
Fate fate_of(std::string_view status);

/// Of a process, by the first of its threads that has not ended; nothing when there is no such process.
std::optional<Fate> fate_of(pid_t pid);

/// How long tasks that are to end may take.
class Overdue {
  public:
    using Clock = std::chrono::steady_clock;

    /// `kill_wait`: what Slurm lets pass between SIGTERM and SIGKILL. A process that SIGTERM ends already does not show
    /// that SIGKILL has followed.
    explicit Overdue(std::chrono::seconds kill_wait = std::chrono::seconds(30)) : kill_wait_(kill_wait) {}

    /// Of all tasks that have not ended, at time `now`. True when all of them are still there five seconds after
    /// SIGKILL.
    bool judge(const std::map<pid_t, Fate>& tasks, Clock::time_point now);

  private:
    std::chrono::seconds kill_wait_;
    std::map<pid_t, Clock::time_point> limits_;
};

}  // namespace berth::spank
