#include "runtime/task_process.hh"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

#include "runtime/base/command.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

std::string value_of(const std::vector<std::string>& environment, const std::string& name) {
    for (const std::string& text : environment)
        if (text.starts_with(name + "=")) return text.substr(name.size() + 1);
    return {};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

/// The child's life: joins the container and becomes the command. Never returns.
[[noreturn]] void become(const StartedContainer& container, std::vector<std::string> command, std::vector<std::string> environment, pid_t parent) {
    int code = exit_failure;
    try {
        sigset_t none;
        sigemptyset(&none);
        join_container(container);
        // Only now: a change of credentials takes it back. Without its server the container has no files.
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) throw SysError("tying the command to its container");
        if (::getppid() != parent) _exit(code);
        std::string path = find_command(command[0], value_of(environment, "PATH"));
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::execve(path.c_str(), pointers(command).data(), pointers(environment).data());
        int number = errno;
        throw SysError(cat("running ", printable(path, 4096)), number);
    } catch (const Error& error) {
        std::fprintf(stderr, "berth: %s\n", error.what());
        code = error.exit_code();
    }
    std::fflush(nullptr);
    _exit(code);
}

/// The exit code when the command has ended.
std::optional<int> ended(pid_t task) {
    int status = 0;
    if (::waitpid(task, &status, WNOHANG) != task) return std::nullopt;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Nothing is sent over the connection any more: what can be read is its end.
bool is_over(int connection) {
    pollfd wait{connection, POLLIN, 0};
    return connection >= 0 && ::poll(&wait, 1, 0) > 0;
}

}  // namespace

sigset_t forwarded_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH}) sigaddset(&set, number);
    return set;
}

std::vector<std::string> changed_environment(std::vector<std::string> environment, const std::vector<plan::EnvironmentChange>& changes) {
    for (const plan::EnvironmentChange& change : changes) {
        std::erase_if(environment, [&](const std::string& text) { return text.starts_with(change.name + "="); });
        if (change.value) environment.push_back(cat(change.name, "=", *change.value));
    }
    return environment;
}

pid_t start_task(const StartedContainer& container, const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    pid_t self = ::getpid(), task = ::fork();
    if (task < 0) throw SysError("starting the command");
    if (task == 0) become(container, command, environment, self);
    return task;
}

int attend_task(pid_t task, const sigset_t& watched, int connection) {
    Fd signals(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals) throw SysError("waiting for the command");
    for (;;) {
        // The command may have ended before the signals were looked at.
        if (auto code = ended(task)) return *code;
        pollfd waiting[2] = {{signals.get(), POLLIN, 0}, {connection, POLLIN, 0}};
        ::poll(waiting, 2, -1);
        if (is_over(connection)) {
            // With the container its processes end: one that has ended by itself at the same time keeps its code.
            if (auto code = ended(task)) return *code;
            ::kill(task, SIGKILL);
            ::waitpid(task, nullptr, 0);
            throw Error("the container has ended: it was removed by force, or its helper was killed");
        }
        signalfd_siginfo signal{};
        while (::read(signals.get(), &signal, sizeof signal) == sizeof signal) {
            // A terminal's signals (from the kernel) reach the command by themselves: it is in the same process group.
            if (signal.ssi_signo != SIGCHLD && signal.ssi_code <= 0) ::kill(task, static_cast<int>(signal.ssi_signo));
        }
    }
}

}  // namespace berth
