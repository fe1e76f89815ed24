// Owner of a child process.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <utility>

namespace berth {

/// A child that is still to be waited for; -1 is empty. Whoever destroys it kills the child and waits for its end, so
/// that no zombie and no number is left behind.
class [[nodiscard]] Pid {
  public:
    Pid() = default;
    /// `child` as fork(2), clone(2) or posix_spawn(3) returned it to the parent; below 0: none.
    explicit Pid(pid_t child) : pid_(child) {}
    Pid(Pid&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    Pid& operator=(Pid&& other) noexcept {
        end();
        pid_ = std::exchange(other.pid_, -1);
        return *this;
    }
    Pid(const Pid&) = delete;
    Pid& operator=(const Pid&) = delete;
    ~Pid() { end(); }

    explicit operator bool() const { return pid_ > 0; }
    pid_t get() const { return pid_; }

    /// Nothing happens when it has been waited for, by whomever.
    void send(int signal) const;

    /// Returns the exit code, or 128 and the signal's number; 0 when it was waited for before.
    int wait();

    /// Waits at most `timeout`; true when it has ended, and has been waited for.
    bool ends_within(std::chrono::milliseconds timeout);

    /// Gives up a child that somebody else has waited for, or that no signal can end. Returns its number.
    pid_t release() { return std::exchange(pid_, -1); }

  private:
    void end();

    pid_t pid_ = -1;
};

}  // namespace berth
