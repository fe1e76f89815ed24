// Brings an image whose named container runs already, also when the step whose pull began it has ended.
#pragma once
#include <functional>

#include "runtime/base/fd.hh"
#include "runtime/base/pid.hh"
#include "runtime/images/opened.hh"

namespace berth {

/// What connects the three processes of a container whose image has still to come: its starter, its helper, and the
/// helper's child that goes on with the pull, the keeper.
class KeeperPipes {
  public:
    /// Throws SysError.
    KeeperPipes();

    /// To be called after the fork of the helper, in each of the two.
    void keep_those_of_starter();
    void keep_those_of_helper() { started_.reset(); }

    /// By the starter, which otherwise has the helper killed by its end: a helper that waits for its own image does
    /// nothing else.
    void tell_started();

    /// Ends when nobody brings the image any more; for ChunkMap::set_lifeline().
    int lifeline() const { return pulls_end_.get(); }

  private:
    friend Pid start_pull_keeper(const EarlyPull& pull, KeeperPipes& pipes);
    Fd pulls_end_, pulls_;        ///< the keeper holds `pulls_` as long as it may bring something
    Fd starter_end_, started_;
};

/// Starts a process that waits until `pull` has ended, and then pulls the image itself, as far as that is still to be
/// done. It ends with the caller, the helper. Call from a process of one thread. Throws SysError.
Pid start_pull_keeper(const EarlyPull& pull, KeeperPipes& pipes);

/// Waits until there is something to read at `connection`, or it ends; meanwhile calls `attend`, an attended_wait(),
/// some times a second. Throws SysError, and what that throws.
void await_early_start(int connection, const std::function<bool()>& attend);

}  // namespace berth
