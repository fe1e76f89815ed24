// The signals that end a program, as a descriptor: for who has something to put in order before.
#pragma once
#include <signal.h>

#include "runtime/base/fd.hh"

namespace berth {

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT, but for those that are ignored, are blocked in the calling thread, and in those
/// that it starts, as long as the object lives. To be destroyed by the thread that made it; what came and was not taken
/// takes effect then. Throws SysError.
class EndSignals {
  public:
    EndSignals();
    ~EndSignals();
    EndSignals(const EndSignals&) = delete;
    EndSignals& operator=(const EndSignals&) = delete;

    /// Readable when a signal has come.
    int descriptor() const { return signals_.get(); }
    /// The number of a signal that came; 0 when there is none.
    int take() const;

  private:
    sigset_t before_{};
    Fd signals_;
};

/// Ends the process by the signal as if nobody had caught it. Returns only when the signal does not end a process.
void die_by(int signal);

}  // namespace berth
