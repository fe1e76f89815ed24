#include "runtime/container/task_process.hh"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <tuple>

#include "runtime/base/channel.hh"
#include "runtime/base/command.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/inherited.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr int answer_ms = 10'000;

/// What a child needs to become the command.
struct Launch {
    const StartedContainer& container;
    const std::vector<std::string>& command;
    const std::vector<std::string>& environment;
    bool terminal;
    const StartComplaint& complain;
    bool forks;   ///< the pid namespace that it joins is only for its children
    Fd parent;    ///< handle of the process that started it
    Fd channel = Fd();  ///< its end of the connection to that process, where there is anything to tell
};

/// Goes on in a new child of this process's parent, whose number is told to that.
void fork_into_pid_namespace(int channel) {
    auto child = static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child < 0) throw SysError("starting the command in the container's pid namespace");
    if (child == 0) return;
    Message told;
    told.add_number("pid", static_cast<uint64_t>(child));
    send_message(channel, told, {}, answer_ms);
    ::_exit(0);
}

void tie_to(int parent) {
    // Only after the change of credentials, which takes it back. Without its server the container has no files.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) throw SysError("tying the command to its container");
    pollfd wait{parent, POLLIN, 0};
    if (::poll(&wait, 1, 0) > 0) ::_exit(exit_failure);
}

[[noreturn]] void execute(const Launch& launch) {
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    execute_command(launch.command, launch.environment);
}

int complain_as_berth(const Error& error) {
    std::fprintf(stderr, "berth: %s\n", error.what());
    return error.exit_code();
}

/// The child's life: joins the container and becomes the command. Never returns.
[[noreturn]] void become(const Launch& launch) {
    int code = exit_failure;
    try {
        std::vector<int> kept{launch.parent.get(), launch.channel.get(), pmi_descriptor(launch.environment)};
        std::vector<int> entering = descriptors_to_enter(launch.container);
        entering.insert(entering.end(), kept.begin(), kept.end());
        sys::prepare_to_join(std::move(entering));
        enter_container(launch.container);
        if (launch.forks) fork_into_pid_namespace(launch.channel.get());
        sys::close_descriptors_except(std::move(kept));
        become_task(launch.container);
        tie_to(launch.parent.get());
        if (launch.terminal) take_terminal(launch.channel.get());
        execute(launch);
    } catch (const Error& error) {
        code = launch.complain ? launch.complain(error) : complain_as_berth(error);
    }
    std::fflush(nullptr);
    _exit(code);
}

/// The new process. It has a copy of this one's memory: where they shared it, one that is killed while it allocates
/// would leave the other waiting (docs/adr/0030).
pid_t start(const Launch& launch, Fd& ours) {
    pid_t child = ::fork();
    if (child != 0) return child;
    ours.reset();
    become(launch);
}

bool joins_pid_namespace(const StartedContainer& container) {
    // The server's own children are born in it.
    return !container.proc && std::any_of(container.namespaces.begin(), container.namespaces.end(),
                                          [](const OwnNamespace& own) { return own.type == CLONE_NEWPID; });
}

/// Takes what the child tells: the number of the process that goes on in its place, and the other end of its terminal.
void listen(Task& task, int channel, size_t messages) {
    while (messages-- > 0) {
        auto received = receive_message(channel);
        // It has failed, and says so itself.
        if (!received) return;
        if (!received->descriptors.empty()) {
            task.terminal = std::make_unique<TerminalRelay>(std::move(received->descriptors[0]));
            continue;
        }
        task.process.wait();
        task.process = Pid(static_cast<pid_t>(received->message.number("pid", INT32_MAX)));
    }
}

/// True for the stops that a terminal or a shell asks for. One by SIGSTOP is not passed on: it may be meant for the
/// command alone, which without this program would have no files.
bool is_shells(int signal) { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

/// The exit code when the command has ended. Other children are those that lost their parents: they are only reaped.
std::optional<int> ended(Task& task) {
    int status = 0;
    for (pid_t child; (child = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (child != task.process.get()) continue;
        if (!WIFSTOPPED(status)) {
            task.process.release();
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
        // The shell that started this program waits for its stop, not for the command's.
        if (!task.terminal && is_shells(WSTOPSIG(status))) ::raise(SIGSTOP);
    }
    return std::nullopt;
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
    for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH})
        sigaddset(&set, number);
    return set;
}

std::vector<std::string> changed_environment(std::vector<std::string> environment,
                                             const std::vector<plan::EnvironmentChange>& changes) {
    for (const plan::EnvironmentChange& change : changes) {
        std::erase_if(environment, [&](const std::string& text) { return text.starts_with(change.name + "="); });
        if (change.value) environment.push_back(cat(change.name, "=", *change.value));
    }
    return environment;
}

std::vector<plan::EnvironmentChange> changes_but(const std::vector<std::string>& names,
                                                 std::vector<plan::EnvironmentChange> changes,
                                                 const std::vector<std::string>& environment) {
    std::erase_if(changes, [&](const plan::EnvironmentChange& change) {
        bool meant = std::find(names.begin(), names.end(), change.name) != names.end();
        return meant && std::any_of(environment.begin(), environment.end(),
                                    [&](const std::string& text) { return text.starts_with(change.name + "="); });
    });
    return changes;
}

Task start_task(const StartedContainer& container, const std::vector<std::string>& command,
                const std::vector<std::string>& environment, bool terminal, const StartComplaint& complain) {
    Launch launch{.container = container,
                  .command = command,
                  .environment = environment,
                  .terminal = terminal,
                  .complain = complain,
                  .forks = joins_pid_namespace(container),
                  .parent = sys::pidfd_open(::getpid())};
    size_t messages = (launch.forks ? 1 : 0) + (terminal ? 1 : 0);
    Fd ours;
    if (messages > 0) std::tie(ours, launch.channel) = make_channel();
    Task task{Pid(start(launch, ours)), nullptr};
    if (task.process.get() < 0) throw SysError("starting the command");
    launch.channel.reset();
    listen(task, ours.get(), messages);
    return task;
}

namespace {

void pass_on(const Task& task, const signalfd_siginfo& signal) {
    int number = static_cast<int>(signal.ssi_signo);
    if (number == SIGCHLD) return;
    if (task.terminal && number == SIGWINCH) return task.terminal->resize();
    if (task.terminal && number == SIGCONT) task.terminal->resume();
    // A terminal's signals (from the kernel) reach the command by themselves where it is in the same process group.
    if (task.terminal || signal.ssi_code <= 0) task.process.send(number);
}

int lost(Task& task, int connection) {
    // With the container its processes end: one that has ended by itself at the same time keeps its code.
    if (auto code = ended(task)) return *code;
    task.process.send(SIGKILL);
    task.process.wait();
    throw Error(reason_of_end(connection));
}

}  // namespace

int attend_task(Task& task, const sigset_t& watched, int connection) {
    Fd signals(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals) throw SysError("waiting for the command");
    for (;;) {
        // The command may have ended before the signals were looked at.
        if (auto code = ended(task)) {
            if (task.terminal) task.terminal->finish();
            return *code;
        }
        std::vector<pollfd> waiting = task.terminal ? task.terminal->waiting() : std::vector<pollfd>();
        waiting.push_back({signals.get(), POLLIN, 0});
        waiting.push_back({connection, POLLIN, 0});
        ::poll(waiting.data(), waiting.size(), -1);
        if (task.terminal) task.terminal->move(waiting);
        if (is_over(connection)) return lost(task, connection);
        signalfd_siginfo signal{};
        while (::read(signals.get(), &signal, sizeof signal) == sizeof signal) pass_on(task, signal);
    }
}

}  // namespace berth
