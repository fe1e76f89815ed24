// `berth enter JOB[.STEP]`: a command, or ssh, in the container of a step of this node; started by `berth exec --job`
// in a step of the same job.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <tuple>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/inherited.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/job_container.hh"
#include "runtime/cli/relay.hh"
#include "runtime/cli/ssh_server.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/task_process.hh"
#include "runtime/cli/ssh.hh"
#include "runtime/plan/visible_devices.hh"

namespace berth::cli {

namespace {

constexpr size_t environment_limit = 16 << 20;

struct EnterLine {
    JobTarget target;
    std::string workdir;
    std::vector<std::string> kept;         ///< names of --env, whose value outside counts
    std::vector<std::string> environment;  ///< the step's, before the container changes it
    std::vector<std::string> command;      ///< empty: the user's shell
    bool terminal = false;
    std::string request;                   ///< in place of a command: what ssh was given
};

/// The container's changes, and the devices that this step, and not the container's, may open.
std::vector<std::string> environment_in(const JobContainer& container, const EnterLine& entry) {
    std::vector<plan::EnvironmentChange> changes =
        changes_but(entry.kept, container.joined.environment, entry.environment);
    plan::Request kept;
    kept.env = entry.kept;
    plan::set_working_directory(changes, container.joined.container.workdir, kept);
    std::vector<std::string> out = changed_environment(entry.environment, changes);
    std::vector<plan::EnvironmentChange> devices;
    for (const auto& [name, value] :
         plan::visible_device_changes(container.joined.devices, plan::accessible_devices, out))
        devices.push_back({name, value});
    return changed_environment(std::move(out), devices);
}

std::vector<std::string> command_in(const EnterLine& entry, const std::vector<std::string>& environment) {
    if (!entry.command.empty()) return entry.command;
    return session_command(value_in(environment, "SHELL"), entry.request);
}

/// slurmstepd passes output on as it comes only by way of a terminal (srun --unbuffered). The command is not to take
/// that for a person's: it writes into a pipe.
class Output {
  public:
    explicit Output(bool terminal) {
        if (terminal || ::isatty(STDOUT_FILENO) == 0) return;
        outside_ = Fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
        Fd write;
        std::tie(read_, write) = sys::make_pipe();
        if (!outside_ || ::dup2(write.get(), STDOUT_FILENO) < 0) throw SysError("making the command's output");
    }

    /// After the command was started, which has it.
    void start() {
        if (!outside_) return;
        if (::dup2(outside_.get(), STDOUT_FILENO) < 0) throw SysError("making the command's output");
        relay_.emplace(read_.get(), outside_.get());
    }

    void finish() {
        if (relay_) relay_->finish();
    }

  private:
    Fd outside_, read_;
    std::optional<Relay> relay_;
};

int enter_container(const EnterLine& entry) {
    JobContainer container = find_job_container(entry.target, entry.environment);
    if (!entry.workdir.empty()) container.joined.container.workdir = entry.workdir;
    std::vector<std::string> environment = environment_in(container, entry);
    sigset_t watched = forwarded_signals();
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    Output output(entry.terminal);
    Task task = start_task(container.joined.container, command_in(entry, environment), environment, entry.terminal);
    output.start();
    int code = attend_task(task, watched, container.connection.get());
    output.finish();
    task.terminal.reset();
    leave(std::move(container.connection));
    return code;
}

/// Of a process of the caller's.
std::vector<std::string> environment_of(uint32_t process) {
    std::string path = cat("/proc/", process, "/environ");
    std::vector<std::string> out = split(sys::read_file(path, environment_limit), '\0');
    std::erase(out, "");
    return out;
}

/// sshd throws away what a subsystem says on its standard error. The server's leads to the user of ssh.
void take_errors_of(uint32_t server) {
    Fd errors(::open(cat("/proc/", server, "/fd/", STDERR_FILENO).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
    if (errors) ::dup2(errors.get(), STDERR_FILENO);
}

/// What sshd tells the command of a session.
void take_session(EnterLine& entry, uint32_t server) {
    std::vector<std::string> of_sshd = environment_of_this_process();
    entry.environment = session_environment(environment_of(server), of_sshd);
    entry.request = value_in(of_sshd, "SSH_ORIGINAL_COMMAND");
    entry.terminal = variable(of_sshd, "SSH_TTY") != nullptr;
    if (entry.request == sftp_word) take_errors_of(server);
}

}  // namespace

int enter(int argc, char** argv) {
    CommandLine line("Run a command in the container of a step on this node; started by berth exec --job.",
                     "berth enter");
    InheritedDescriptors inherited("");
    EnterLine entry;
    std::string target;
    bool ssh_server = false;
    uint32_t session_of = 0;
    line.option("--workdir", entry.workdir, "working directory in the container");
    line.option("--env", entry.kept, "a variable whose value outside counts");
    line.flag("--terminal", entry.terminal, "give the command a terminal of the container");
    line.flag("--ssh-server", ssh_server, "serve ssh on the standard streams");
    auto session =
        line.option("--session-of", session_of, "run what ssh has asked for from this process, such a server");
    line.argument("target", target, "JOB[.STEP]").required();
    line.ends_with_command(entry.command);
    if (auto code = line.parse(argc, argv)) return *code;
    entry.target = parse_job_target(target);
    entry.environment = environment_of_this_process();
    if (ssh_server) return serve_ssh(find_job_container(entry.target, entry.environment));
    if (session.given()) take_session(entry, session_of);
    return enter_container(entry);
}

}  // namespace berth::cli
