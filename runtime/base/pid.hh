// Owner of a child process.
#pragma once
#include <sys/types.h>

#include <utility>

namespace berth {

/// A child that is still to be waited for; -1 is empty. Whoever destroys it waits for the child's end, so that no
/// zombie and no number is left behind: a child that does not end by itself is killed first.
class [[nodiscard]] Pid {
  public:
    Pid() = default;
    /// `child` as fork(2), clone(2) or posix_spawn(3) returned it to the parent; below 0: none.
    explicit Pid(pid_t child) : pid_(child) {}
    Pid(Pid&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    Pid& operator=(Pid&& other) noexcept {
        wait();
        pid_ = std::exchange(other.pid_, -1);
        return *this;
    }
    Pid(const Pid&) = delete;
    Pid& operator=(const Pid&) = delete;
    ~Pid() { wait(); }

    explicit operator bool() const { return pid_ > 0; }
    pid_t get() const { return pid_; }

    /// Nothing happens when it has been waited for.
    void send(int signal) const;

    /// Returns the exit code, or 128 and the signal's number; 0 when it was waited for before.
    int wait();

    /// True when it has ended; then it has been waited for.
    bool has_ended();

  private:
    pid_t pid_ = -1;
};

}  // namespace berth
