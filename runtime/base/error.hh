// The one error type: a finished line for a person, and the exit code it stands for.
#pragma once
#include <stdexcept>
#include <string>

namespace berth {

/// Exit codes of the command line, the same as podman's: berth failed, not executable, not found.
inline constexpr int exit_failure = 125;
inline constexpr int exit_not_executable = 126;
inline constexpr int exit_not_found = 127;

/// One finished line: what was being done, to which object, why, and what to do about it.
/// The text never ends in a newline and never holds control characters taken from outside (see `printable`).
class Error : public std::runtime_error {
  public:
    explicit Error(const std::string& line, int exit_code = exit_failure);

    /// Exit code of the program or task that fails with this error.
    int exit_code() const { return exit_code_; }

  private:
    int exit_code_;
};

/// An error of a system call: `doing` ("opening /a/b") followed by the reason in words.
/// errno is read first of all, so the text may be built by the caller in the same expression only when that does not
/// touch errno; pass the number explicitly otherwise.
class SysError : public Error {
  public:
    explicit SysError(const std::string& doing, int number = 0);

    /// The errno value this error was made from.
    int number() const { return number_; }

  private:
    SysError(int number, const std::string& doing);
    int number_;
};

/// The reason in words for an errno value ("No such file or directory").
std::string reason(int number);

}  // namespace berth
