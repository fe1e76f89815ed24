#include "runtime/container/entrypoint.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "runtime/base/command.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/pid.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/entrypoint_report.hh"
#include "runtime/container/task_process.hh"
#include "runtime/sandbox/capabilities.hh"

namespace berth {

namespace {

/// Out of the way of what scripts use (`exec 3>&1`, `flock 9`).
constexpr int report_fd = 77, hold_fd = 78;
constexpr int timeout_ms = 10'000;
constexpr int exit_grace_ms = 2'000;
constexpr size_t environment_limit = 8 << 20;
/// Reads of what is left in the pipe at the end, which another process may fill as fast as it is read.
constexpr int last_reads = 64;

std::vector<std::string> words_of(const EntrypointRun& run) {
    std::vector<std::string> out = run.words;
    // Tells who it is, so that its environment can be read, and waits until that is done.
    std::string script = cat("echo $$ > /proc/self/fd/", report_fd, "; read line < /proc/self/fd/", hold_fd);
    out.insert(out.end(), {"sh", "-c", script});
    return out;
}

/// The container's processes may not look into this one before it is one of them.
void enter_alone(const EntrypointRun& run, std::vector<int> kept) {
    std::vector<int> entering = descriptors_to_enter(run.container);
    entering.insert(entering.end(), kept.begin(), kept.end());
    sys::prepare_to_join(std::move(entering));
    enter_container(run.container);
    sys::close_descriptors_except(std::move(kept));
}

/// Copies `fd` to a number above those that are given out, so that none of them is overwritten before it is in its
/// place.
Fd out_of_the_way(int fd) {
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, hold_fd + 1));
    if (!copy) throw SysError("preparing the image's entrypoint");
    return copy;
}

void place(int fd, int number) {
    if (::dup2(fd, number) < 0) throw SysError("preparing the image's entrypoint");
}

/// The standard streams and the two pipes of the entrypoint.
void place_descriptors(int null, int log, int report, int hold) {
    Fd copies[] = {out_of_the_way(null), out_of_the_way(log), out_of_the_way(report), out_of_the_way(hold)};
    place(copies[0].get(), STDIN_FILENO);
    place(copies[1].get(), STDOUT_FILENO);
    place(copies[1].get(), STDERR_FILENO);
    place(copies[2].get(), report_fd);
    place(copies[3].get(), hold_fd);
}

/// The child's life: joins the container and becomes the entrypoint. Never returns.
[[noreturn]] void become(const EntrypointRun& run, pid_t parent, int log, int report, int hold) {
    try {
        for (int number :
             {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU})
            ::signal(number, SIG_DFL);
        Fd null = sys::open_file("/dev/null", O_RDONLY);
        enter_alone(run, {null.get(), log, report, hold});
        place_descriptors(null.get(), log, report, hold);
        sys::close_descriptors_except({report_fd, hold_fd});
        become_task(run.container);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(exit_failure);
        execute_command(words_of(run), run.environment);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(exit_not_found);
}

/// While it lives, the thread has the rights of the container's tasks: nobody looks into a process who lacks one of its
/// capabilities (ptrace(2), access mode checking). Who joins from outside owns the user namespace and needs none.
class RightsOfTasks {
  public:
    explicit RightsOfTasks(const StartedContainer& container) : rights_(container.proc ? container.capabilities : 0) {
        if (rights_ != 0) sandbox::raise_capabilities(rights_, kept_capabilities);
    }
    ~RightsOfTasks() {
        if (rights_ != 0) sandbox::raise_capabilities(0, rights_ | kept_capabilities);
    }
    RightsOfTasks(const RightsOfTasks&) = delete;
    RightsOfTasks& operator=(const RightsOfTasks&) = delete;

  private:
    uint64_t rights_;
};

/// The running entrypoint; ended with this object.
class Entrypoint {
  public:
    explicit Entrypoint(const EntrypointRun& run) : run_(run) {
        auto&& [log, its_log] = sys::make_pipe();
        auto&& [report, its_report] = sys::make_pipe();
        auto&& [its_hold, hold] = sys::make_pipe();
        pid_t self = ::getpid();
        pid_ = Pid(::fork());
        if (pid_.get() < 0) throw SysError("starting the image's entrypoint");
        if (pid_.get() == 0) become(run, self, its_log.get(), its_report.get(), its_hold.get());
        log_ = std::move(log), report_ = std::move(report), hold_ = std::move(hold);
    }

    Entrypoint(const Entrypoint&) = delete;
    Entrypoint& operator=(const Entrypoint&) = delete;

    ~Entrypoint() {
        // With this the shell reads the end of its pipe and goes, and the entrypoint with it.
        hold_.reset();
        pollfd end{process_.get(), POLLIN, 0};
        if (!reached_ || ::poll(&end, 1, exit_grace_ms) == 0) pid_.send(SIGKILL);
        pid_.wait();
    }

    /// The environment in which it executes its command.
    std::vector<std::string> environment() {
        // Not where the child is made: only a whole object waits for it.
        process_ = sys::pidfd_open(pid_.get());
        for (bool told = false;;) {
            pollfd waiting[4] = {{report_.get(), POLLIN, 0},
                                 {log_.get(), POLLIN, 0},
                                 {run_.life_line, POLLIN, 0},
                                 {process_.get(), POLLIN, 0}};
            int ready = ::poll(waiting, 4, told ? -1 : timeout_ms);
            if (ready < 0 && errno != EINTR) throw SysError("waiting for the image's entrypoint");
            if (ready == 0)
                told = true, run_.note(cat("the image's entrypoint ", name(), " has been running for ",
                                           timeout_ms / 1000, " s; --no-container-entrypoint leaves it out"));
            if (waiting[2].revents != 0) run_.ready();
            if (waiting[1].revents != 0) read_log();
            if (waiting[0].revents & POLLIN) return reported();
            if (waiting[3].revents != 0) fail();
        }
    }

  private:
    std::string name() const { return printable(run_.words[0], 4096); }

    std::vector<std::string> reported() {
        char text[32];
        ssize_t got = ::read(report_.get(), text, sizeof text);
        auto pid = reported_process({text, static_cast<size_t>(std::max<ssize_t>(got, 0))});
        if (!pid)
            throw Error(cat("the image's entrypoint ", name(), " uses descriptor 77, which is berth's"));
        Fd environment = environment_of(*pid);
        std::vector<std::string> out = split(
            sys::read_all(environment.get(), environment_limit, "the environment that the image's entrypoint made"),
            '\0');
        reached_ = true;
        drain_log();
        return out;
    }

    /// The number comes from the image, and this process may read what the container's may not: it must be one of
    /// these. The directory is that of one process, whoever gets its number afterwards.
    Fd environment_of(pid_t pid) const {
        RightsOfTasks rights(run_.container);
        Fd process = run_.container.proc ? sys::open_at(run_.container.proc.get(), cat(pid), O_RDONLY | O_DIRECTORY)
                                         : sys::open_file(cat("/proc/", pid), O_RDONLY | O_DIRECTORY);
        struct stat own = sys::stat_of(run_.container.user_namespace.get(), "the container's user namespace"), its{};
        bool readable = ::fstatat(process.get(), "ns/user", &its, 0) == 0;
        if (!readable || its.st_ino != own.st_ino || its.st_dev != own.st_dev)
            throw Error(cat("the image's entrypoint ", name(), " names process ", pid,
                            " as its command, which is not in the container"));
        return sys::open_at(process.get(), "environ", O_RDONLY);
    }

    void drain_log() {
        for (int left = last_reads; left > 0 && read_log();) --left;
    }

    /// True when there was something.
    bool read_log() {
        pollfd waiting{log_.get(), POLLIN, 0};
        char buffer[4096];
        ssize_t got = ::poll(&waiting, 1, 0) > 0 ? ::read(log_.get(), buffer, sizeof buffer) : 0;
        if (got <= 0) return log_closed(waiting.revents != 0);
        lines_.take({buffer, static_cast<size_t>(got)}, run_.log);
        return true;
    }

    /// A closed log is not waited for again.
    bool log_closed(bool closed) {
        if (closed) log_.reset();
        return false;
    }

    [[noreturn]] void fail() {
        drain_log();
        std::string last = lines_.last();
        siginfo_t end{};
        ::waitid(P_PID, static_cast<id_t>(pid_.get()), &end, WEXITED | WNOWAIT);
        std::string how = end.si_code == CLD_EXITED ? cat("ended with code ", end.si_status)
                                                    : cat("was killed by signal ", end.si_status);
        throw Error(cat("the image's entrypoint ", name(), " ", how, " without running the command",
                        last.empty() ? "" : cat("; its last line: ", last),
                        "; --container-entrypoint-log shows all, --no-container-entrypoint leaves it out"));
    }

    const EntrypointRun& run_;
    Fd log_, report_, hold_, process_;
    Pid pid_;
    bool reached_ = false;
    EntrypointLog lines_;
};

}  // namespace

std::vector<plan::EnvironmentChange> run_entrypoint(const EntrypointRun& run) {
    return differences(run.environment, Entrypoint(run).environment());
}

std::vector<plan::EnvironmentChange> with_entrypoint(std::vector<plan::EnvironmentChange> changes,
                                                     const std::vector<plan::EnvironmentChange>& entrypoint,
                                                     const std::vector<std::string>& kept,
                                                     const std::vector<std::string>& environment) {
    for (const plan::EnvironmentChange& change : changes_but(kept, entrypoint, environment)) {
        if (plan::asks_for_rights(change.name)) continue;
        std::erase_if(changes, [&](const plan::EnvironmentChange& other) { return other.name == change.name; });
        changes.push_back(change);
    }
    return changes;
}

}  // namespace berth
