// A program that runs as a child, and whose standard output is read.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/pid.hh"

namespace berth {

/// Owns a running program. Destroying it kills the program and waits for its end.
class [[nodiscard]] Child {
  public:
    /// Starts `program` (an absolute path, not searched for) with `arguments` after its name, `environment`
    /// (NAME=VALUE; without one, this process's), `input` (or, without one, /dev/null) as standard input and a pipe as
    /// standard output; standard error is `errors` or, without one, shared. Signals are unblocked and at their defaults
    /// there. Throws SysError.
    Child(const std::string& program, const std::vector<std::string>& arguments, int input = -1, int errors = -1,
          const std::vector<std::string>* environment = nullptr);

    /// Its number; -1 when it has been waited for.
    pid_t pid() const { return pid_.get(); }

    /// The reading end of its standard output.
    int output() const { return output_.get(); }

    /// Sends the signal, unless the program has been waited for.
    void send(int signal) const { pid_.send(signal); }

    /// Waits for the end; returns the exit code, or 128 and the signal's number.
    int wait() { return pid_.wait(); }

    /// Kills it. One that the kernel does not let end in time, as it waits for a device, is left behind.
    void kill_or_leave(std::chrono::milliseconds patience);

  private:
    Fd output_;
    Pid pid_;
};

/// How a program ended that said nothing, of what Child::wait() gives: "ended with code 3 without a message", or "was
/// killed by signal 9 (Killed)".
std::string silent_end(int code);

}  // namespace berth
