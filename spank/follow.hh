// What the helper, a process of the user's, says to slurmstepd: lines for the user, and no more of them than slurmstepd
// has room for.
#pragma once
#include <functional>
#include <string>

#include "runtime/base/channel.hh"
#include "runtime/plan/messages.hh"

namespace berth::spank {

/// Reads the helper's lines from the step's socket. Throws Error for whatever plan::said_limits does not allow, and for
/// more than `most` lines: such a helper is none of berth's.
class HelperLines {
  public:
    explicit HelperLines(size_t most = plan::said_lines);
    using Status = Inbox::Status;
    /// Never waits. After Status::message there is a line to take.
    Status read(int socket);
    /// The line, without control characters.
    std::string take();
    /// True when that line says why the container is no more.
    bool last() const { return last_; }

  private:
    size_t most_;
    Inbox inbox_;
    std::string line_;
    size_t lines_ = 0;
    bool last_ = false;
};

/// How a save ended for slurmstepd.
enum class SaveEnd {
    done,       ///< the helper has said all
    cancelled,  ///< Slurm ends the step
    over_time,  ///< the limit has passed
};

/// Gives each line of the helper to `show` until the end of `socket`, until `sentinel` (see Sentinel::descriptor) is
/// readable, or for `limit_ms` (-1: no limit). What the helper says or leaves unsaid delays neither of the latter.
/// Throws Error as HelperLines does, SysError when it cannot wait.
SaveEnd follow_save(int socket, int sentinel, int limit_ms, const std::function<void(const std::string&)>& show);

}  // namespace berth::spank
