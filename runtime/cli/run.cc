// `berth run`: a container outside Slurm. This process becomes the container's server; its one child is the command.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "runtime/base/command.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/open_for_person.hh"
#include "runtime/cli/run_options.hh"
#include "runtime/container_start.hh"
#include "runtime/facts.hh"
#include "runtime/plan/plan.hh"
#include "runtime/plan/site_file.hh"

namespace berth::cli {

namespace {

/// Prints the time since the last mark, when asked to.
class Phases {
  public:
    explicit Phases(bool shown) : shown_(shown) {}
    void mark(const char* phase) {
        auto now = Clock::now();
        if (shown_) std::fprintf(stderr, "berth: %-8s %7.2f ms\n", phase, std::chrono::duration<double, std::milli>(now - last_).count());
        last_ = now;
    }

  private:
    using Clock = std::chrono::steady_clock;
    bool shown_;
    Clock::time_point last_ = Clock::now();
};

/// The command's environment: this process's, --env NAME=VALUE over it, then the plan's rules.
std::vector<std::string> task_environment(const plan::Plan& plan, const RunOptions& options) {
    std::vector<std::string> environment = environment_of_this_process();
    auto replace = [&](const std::string& name, const std::optional<std::string>& value) {
        std::erase_if(environment, [&](const std::string& text) { return text.starts_with(name + "="); });
        if (value) environment.push_back(cat(name, "=", *value));
    };
    for (const std::string& text : options.set) replace(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    for (const plan::EnvironmentChange& change : plan::environment_changes(plan.environment, environment)) replace(change.name, change.value);
    return environment;
}

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
[[noreturn]] void become(const StartedContainer& container, std::vector<std::string> command, std::vector<std::string> environment) {
    int code = exit_failure;
    try {
        sigset_t none;
        sigemptyset(&none);
        join_container(container);
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

/// Passes signals on to the command until it ends; returns its exit code as a shell would.
int attend(pid_t command, const sigset_t& watched) {
    for (;;) {
        siginfo_t signal{};
        if (::sigwaitinfo(&watched, &signal) < 0) continue;
        if (signal.si_signo != SIGCHLD) {
            // A terminal's signals (from the kernel) reach the command by themselves: it is in the same process group.
            if (signal.si_code <= 0) ::kill(command, signal.si_signo);
            continue;
        }
        int status = 0;
        if (::waitpid(command, &status, WNOHANG) != command) continue;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

/// The signals that a user, a shell or a batch system sends to a command.
sigset_t forwarded_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH}) sigaddset(&set, number);
    return set;
}

}  // namespace

int run(int argc, char** argv) {
    RunOptions options;
    int code = 0;
    if (!parse_run_options("run", argc, argv, options, code)) return code;

    Phases phases(options.verbose);
    plan::Site site = load_site();
    plan::Caller caller = caller_of_this_process();
    plan::apply_environment(site, environment_of_this_process());
    OpenedImage opened = open_for_person(options, caller, site);
    phases.mark("image");
    plan::Plan decided = plan::make_plan(options.request, caller, {}, site, host_facts(), opened.image.index.config());
    if (!options.command.empty()) decided.command = options.command;
    if (decided.command.empty()) throw Error(cat("running ", options.request.image, ": the image names no command; write one after the image"), exit_not_found);
    phases.mark("plan");

    sigset_t watched = forwarded_signals();
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    StartedContainer container = start_container(decided, std::move(opened.image), site);
    phases.mark("start");
    std::vector<std::string> environment = task_environment(decided, options);
    pid_t command = ::fork();
    if (command < 0) throw SysError("starting the command");
    if (command == 0) become(container, decided.command, std::move(environment));
    code = attend(command, watched);
    phases.mark("command");
    end_container(container);
    phases.mark("end");
    return code;
}

}  // namespace berth::cli
