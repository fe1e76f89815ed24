// Copying between two descriptors beside what else a process does.
#pragma once
#include <thread>

#include "runtime/base/fd.hh"

namespace berth::cli {

/// A thread that copies bytes as they come, until the end of the input or until nobody takes them. To be made after the
/// process has forked what it has to fork. Signals are for the process's other threads: block them before.
class Relay {
  public:
    /// Neither descriptor is closed. With `ends_output` the end of the input is passed on to `to`, a socket.
    Relay(int from, int to, bool ends_output = false);
    ~Relay();
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;

    /// Copies what has been written until now, and waits for that: whoever writes has ended, or has left the descriptor
    /// to others, who are not waited for.
    void finish();

  private:
    void copy(int from, int to, bool ends_output) const;

    Fd bell_read_, bell_write_;
    std::thread thread_;
};

}  // namespace berth::cli
