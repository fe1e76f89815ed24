// A child process whose standard output is read: the only way berth runs another program.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth {

/// Owns a running program. Destroying it kills the program and reaps it.
class Child {
  public:
    /// Starts `program` (an absolute path, not searched for) with `arguments` after its name, this process's
    /// environment, `input` (or, without one, /dev/null) as standard input and a pipe as standard output; standard
    /// error is `errors` or, without one, shared. Signals are unblocked and at their defaults there. Throws SysError.
    Child(const std::string& program, const std::vector<std::string>& arguments, int input = -1, int errors = -1);
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();

    /// Its number; -1 when it has been waited for.
    pid_t pid() const { return pid_; }

    /// The reading end of its standard output.
    int output() const { return output_.get(); }

    /// Sends the signal, unless the program has been waited for.
    void send(int signal) const;

    /// Waits for the end; returns the exit code, or 128 and the signal's number.
    int wait();

  private:
    Fd output_;
    pid_t pid_ = -1;
};

}  // namespace berth
