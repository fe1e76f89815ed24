#include "spank/sentinel.hh"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/cgroup.hh"

namespace berth::spank {

namespace {

/// Only async-signal-safe calls. Its name must not be slurmstepd's: proctrack/linuxproc spares processes of that name.
[[noreturn]] void stand_and_wait(pid_t parent) {
    prctl(PR_SET_NAME, "berth-saving", 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    // It may have ended before that.
    if (getppid() != parent) _exit(0);
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
    // What ends a step comes as these; the others are for programs that know what they mean.
    for (int number : {SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU}) signal(number, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    sys::close_range(0, ~0U);
    for (;;) pause();
}

/// The file that takes processes into the cgroup of a line of /proc/PID/cgroup ("4:freezer:/slurm/uid_1/job_2/step_0"),
/// when it is one of Slurm's steps.
std::string procs_file(std::string_view line) {
    size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos || line.find("/step_", second) == line.npos) return {};
    std::string_view controller = line.substr(first + 1, second - first - 1);
    return cat("/sys/fs/cgroup/", controller, controller.empty() ? "" : "/", line.substr(second + 2), "/cgroup.procs");
}

}  // namespace

void Sentinel::learn_from(pid_t task) try {
    if (!groups_.empty()) return;
    bool in_cgroup = false;
    for (const std::string& line : split(sys::read_file(cat("/proc/", task, "/cgroup"), proc_file_limit), '\n'))
        if (std::string path = procs_file(line); !path.empty()) {
            in_cgroup = true;
            if (Fd file = sys::open_if_exists(AT_FDCWD, path, O_WRONLY)) groups_.push_back(std::move(file));
        }
    // Where Slurm knows tasks by other means, a child of slurmstepd's is one.
    found_by_descent_ = !in_cgroup;
} catch (const Error&) {
    // The task has ended already; then the process is found as slurmstepd's child alone.
}

void Sentinel::start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int descriptor = -1;
    pid_t own = getpid();
    // Not fork(): it takes locks that another thread of slurmstepd may have held.
    long pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, &descriptor, nullptr, nullptr);
    if (pid == 0) stand_and_wait(own);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) throw SysError("starting the process that watches for the step's end", error);
    pid_ = static_cast<pid_t>(pid);
    process_ = Fd(descriptor);
    std::string text = std::to_string(pid_);
    sees_signals_ = found_by_descent_;
    for (const Fd& group : groups_)
        // A cgroup may have gone with its last task.
        if (write(group.get(), text.data(), text.size()) > 0) sees_signals_ = true;
}

Sentinel::~Sentinel() { end(); }

void Sentinel::end() {
    if (pid_ < 0) return;
    // By its handle: slurmstepd, which waits for any child, may have taken it already.
    syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    process_.reset();
}

}  // namespace berth::spank
