// Programs that the kernel tests run: to their end, beside the test, and on a terminal.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth::kernel_test {

/// Replaces this process, a child: ends it with 127 when there is no such program, with 126 when it cannot be run.
[[noreturn]] void become(const std::vector<std::string>& command);

/// Output and exit code ("text|code") of a program in the caller's root.
std::string output_of(const std::vector<std::string>& command);

/// The exit code, or 1000 and the number of the signal that ended the process.
int code_of(int status);

/// Adds what comes from `fd` to `all` until `text` has come, or the end. Throws Error when neither comes in 10 s.
void read_until(int fd, std::string& all, const std::string& text);

/// A program that runs beside the test, with its standard output in a pipe. It is killed in the end, also when a check
/// before it throws: it holds the pipe of the test's own output.
class Beside {
  public:
    /// `before` is called in the child first of all.
    explicit Beside(const std::vector<std::string>& command, const std::function<void()>& before = {});
    ~Beside();
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;

    void send(int signal) const;
    /// The status of waitpid(2), which also waits for a stop with WUNTRACED.
    int wait(int options = 0);
    int output() const { return output_.get(); }

  private:
    Fd output_;
    pid_t child_ = -1;
};

}  // namespace berth::kernel_test
