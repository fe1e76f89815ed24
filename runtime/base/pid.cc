#include "runtime/base/pid.hh"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/fd.hh"

namespace berth {

void Pid::send(int signal) const {
    if (pid_ <= 0) return;
    siginfo_t end{};
    // Where all children are waited for, this one may have been: by now the number may be that of another process.
    if (::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD)
        return;
    ::kill(pid_, signal);
}

int Pid::wait() {
    int status = 0;
    // __WALL: also a child whose end is told by no signal.
    while (pid_ > 0 && ::waitpid(pid_, &status, __WALL) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool Pid::ends_within(std::chrono::milliseconds timeout) {
    // Where no handle can be had it is looked after once.
    Fd handle(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    pollfd end{handle.get(), POLLIN, 0};
    if (handle) ::poll(&end, 1, static_cast<int>(timeout.count()));
    if (pid_ > 0 && ::waitpid(pid_, nullptr, __WALL | WNOHANG) == 0) return false;
    pid_ = -1;
    return true;
}

void Pid::end() {
    send(SIGKILL);
    wait();
}

}  // namespace berth
