#include "runtime/base/pid.hh"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>

namespace berth {

void Pid::send(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
}

int Pid::wait() {
    int status = 0;
    // __WALL: also a child whose end is told by no signal.
    while (pid_ > 0 && ::waitpid(pid_, &status, __WALL) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool Pid::has_ended() {
    if (pid_ > 0 && ::waitpid(pid_, nullptr, __WALL | WNOHANG) == 0) return false;
    pid_ = -1;
    return true;
}

}  // namespace berth
