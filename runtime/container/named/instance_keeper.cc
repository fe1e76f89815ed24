// The start of an instance, and the process that keeps it.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/base/channel.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/instance.hh"
#include "runtime/container/task_process.hh"
#include "runtime/plan/messages.hh"
#include "runtime/sandbox/processes.hh"

namespace berth {

namespace {

constexpr auto left_patience = std::chrono::seconds(5);
constexpr int starters_answer_ms = 60'000;

Error exists_already(const std::string& name) {
    return Error(cat("instance ", name, " already exists"));
}

/// Makes the folder of an instance, once the one of that name before it is gone. Call with its lock.
void make_folder(const ContainerFolder& folder, const InstanceRecord& record) {
    const std::string& name = record.name;
    if (find_instance(folder, name)) throw exists_already(name);
    try {
        if (!lock_after_last_run(folder, name))
            throw Error(cat("starting instance ", name, ": the one before it has not ended yet; try again"));
    } catch (const SysError& error) {
        if (error.number() != ENOENT) throw;
    }
    folder.create(name, {}, [&](int made) {
        Fd file = sys::open_at(made, "instance", O_WRONLY | O_CREAT | O_EXCL, 0600);
        sys::write_all(file.get(), instance_text(record), cat("the record of instance ", name));
    });
}

Fd log_file(const std::string& path) {
    Fd out = sys::try_open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0644);
    if (!out) throw SysError(cat("opening ", printable(path, 4096), " for what the instance prints"));
    return out;
}

void print_to_logs(const InstanceRecord& record) {
    Fd out = log_file(record.out), err = log_file(record.err);
    std::fflush(nullptr);
    debug::end();
    sys::point_at_null({0});
    if (::dup2(out.get(), 1) < 0 || ::dup2(err.get(), 2) < 0) throw SysError("opening the files of an instance");
}

/// A handle of the slurmstepd that the caller is a descendant of; empty outside of steps. Where Slurm finds a step's
/// processes by their parents, it would not find the keeper.
Fd slurmstepd_above() {
    for (pid_t at = ::getpid(); at > 1; at = parent_of(at)) {
        std::string name = sys::read_file(cat("/proc/", at, "/comm"));
        if (trimmed(name) == "slurmstepd") return sys::pidfd_open(at);
    }
    return {};
}

/// The process that keeps an instance.
class InstanceKeeper {
  public:
    InstanceKeeper(const ContainerFolder& folder, InstanceStart& start, Fd step)
        : folder_(folder), start_(start), step_(std::move(step)) {}

    void begin(ContainerImage image, Lock lock) {
        const std::string& name = start_.record.name;
        start_.record.keeper = ::getpid();
        make_folder(folder_, start_.record);
        plan::Plan plan = start_.plan;
        // What this start has for itself is nothing of those who come later.
        plan.environment.user.clear();
        plan.environment.keep_host.clear();
        plan.command.clear();
        connection_ = start_instance_helper(folder_, plan, name, std::move(image), start_.site, start_.place, lock);
        auto joined = ask_to_join(connection_.get(), plan::TaskRequest{0, {}, false});
        if (!joined)
            throw Error(cat("starting instance ", name, ": its helper was killed; look for the reason in dmesg"));
        container_ = std::move(joined->container);
        container_.workdir = start_.plan.workdir;
        helper_ = helper_at(folder_.connect(name));
        print_to_logs(start_.record);
        if (::chdir("/") != 0) throw SysError("leaving the working directory");
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (!start_.command.empty()) task_ = start_task(container_, start_.command, start_.environment);
    }

    /// Until a signal comes that nobody is there for, or the container or the step has ended.
    void attend() {
        sigset_t watched = forwarded_signals();
        Fd signals(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
        if (!signals) throw SysError("waiting for signals");
        for (;;) {
            reap();
            pollfd waiting[] = {{signals.get(), POLLIN, 0}, {connection_.get(), POLLIN, 0}, {step_.get(), POLLIN, 0}};
            ::poll(waiting, 3, -1);
            if (waiting[1].revents != 0) return lose();
            if (waiting[2].revents != 0) return leave(std::move(connection_));
            signalfd_siginfo signal{};
            while (::read(signals.get(), &signal, sizeof signal) == sizeof signal)
                if (!pass_on(static_cast<int>(signal.ssi_signo))) return leave(std::move(connection_));
        }
    }

  private:
    void reap() {
        for (pid_t child; (child = ::waitpid(-1, nullptr, WNOHANG)) > 0;)
            if (child == task_.process.get()) task_.process.release();
    }

    /// False when there is nobody whom it would end.
    bool pass_on(int signal) {
        if (signal == SIGCHLD) return true;
        ino_t inode = sys::stat_of(container_.user_namespace.get(), "the user namespace").st_ino;
        std::vector<pid_t> processes = processes_of_instance(start_.record, inode, helper_);
        send_to(processes, signal);
        return !processes.empty() || signal == SIGCONT || signal == SIGTSTP || signal == SIGWINCH;
    }

    /// The helper has gone, which may have been killed.
    void lose() {
        std::fprintf(stderr, "%s\n", reason_of_end(connection_.get()).c_str());
        Fd proc = sys::open_file("/proc", O_RDONLY | O_DIRECTORY);
        sandbox::kill_inhabitants(proc.get(), container_.user_namespace.get(), left_patience, {helper_});
        reap();
    }

    const ContainerFolder& folder_;
    InstanceStart& start_;
    Fd step_;  ///< with whose end the instance ends; empty: it is of no step
    Fd connection_;
    StartedContainer container_;
    pid_t helper_ = 0;
    Task task_;
};

[[noreturn]] void keep(const ContainerFolder& folder, InstanceStart& start, ContainerImage image, Lock lock, Fd starter,
                       Fd step) {
    try {
        ::setsid();
        ::signal(SIGPIPE, SIG_IGN);
        sigset_t watched = forwarded_signals();
        ::sigprocmask(SIG_SETMASK, &watched, nullptr);
        if (start.forked) start.forked();
        InstanceKeeper keeper(folder, start, std::move(step));
        keeper.begin(std::move(image), std::move(lock));
        Message begun;
        begun.add_number("keeper", static_cast<uint64_t>(::getpid()));
        send_message(starter.get(), begun, {}, starters_answer_ms);
        starter.reset();
        keeper.attend();
        ::_exit(0);
    } catch (const Error& error) {
        try {
            if (starter)
                send_message(starter.get(), plan::encode(plan::Failure{error.what(), error.exit_code()}), {},
                             starters_answer_ms);
        } catch (const Error&) {
            // Who started it has gone.
        }
    }
    ::_exit(exit_failure);
}

}  // namespace

InstanceRecord start_instance(const ContainerFolder& folder, InstanceStart start, ContainerImage image) {
    const std::string& name = start.record.name;
    if (find_instance(folder, name)) throw exists_already(name);
    Lock lock = folder.lock(name);
    Fd step = slurmstepd_above();
    auto&& [ours, its] = make_channel();
    pid_t child = ::fork();
    if (child < 0) throw SysError(cat("starting instance ", name));
    if (child == 0) {
        ours.reset();
        keep(folder, start, std::move(image), std::move(lock), std::move(its), std::move(step));
    }
    lock.unlock();
    its.reset();
    auto received = receive_message(ours.get());
    if (!received) throw Error(cat("starting instance ", name, ": its keeper was killed; try again"));
    if (plan::is(received->message, plan::MessageType::failure)) {
        plan::Failure failure = plan::decode_failure(received->message);
        throw Error(failure.line, failure.exit_code);
    }
    start.record.keeper = child;
    return start.record;
}

}  // namespace berth
