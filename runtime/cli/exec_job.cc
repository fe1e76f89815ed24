#include "runtime/cli/exec_job.hh"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/command.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/pid.hh"
#include "runtime/base/text.hh"
#include "runtime/host/own_program.hh"
#include "runtime/host/run_program.hh"
#include "runtime/request/carried.hh"

namespace berth::cli {

namespace {

// As long as Slurm's own commands wait for an answer that is late (MessageTimeout is 10 s, and they try again).
constexpr auto answer_limit = std::chrono::seconds(60);

std::string slurm_program(const std::string& name) try {
    const char* path = std::getenv("PATH");
    return find_command(name, path != nullptr ? path : "", "here");
} catch (const Error& error) {
    throw Error(cat("entering a job by Slurm's ", name, ": ", error.what(), "; run it where srun can be run"),
                exit_not_found);
}

/// What one of Slurm's commands prints; empty where it says that there is no such job or step.
std::string answer_of(const std::string& name, const std::vector<std::string>& words, const std::string& about) {
    ProgramAnswer answer = run_program(slurm_program(name), words, "", answer_limit);
    if (answer.code == 0) return answer.output;
    if (answer.complaint.find("Invalid job id") != answer.complaint.npos) return {};
    throw Error(cat("asking Slurm's ", name, " about ", about, ": ",
                    answer.code < 0           ? cat("no answer within ", answer_limit.count(), " s")
                    : answer.complaint.empty() ? cat("it ended with ", answer.code)
                                               : answer.complaint,
                    "; see whether sinfo gets an answer"));
}

void forget_steering() {
    for (const std::string& entry : environment_of_this_process()) {
        std::string name = entry.substr(0, entry.find('='));
        if (steers_srun(name)) ::unsetenv(name.c_str());
    }
}

/// Slurm's list ("n[1-4]"), one by one.
std::vector<std::string> nodes_of(const std::string& list, const std::string& about) {
    std::vector<std::string> out;
    if (list.empty()) return out;
    for (const std::string& line : split(answer_of("scontrol", {"show", "hostnames", list}, about), '\n'))
        if (std::string_view name = trimmed(line); !name.empty()) out.emplace_back(name);
    return out;
}

/// Of the job, or of the step that is meant. squeue does not list the steps of batch scripts and of salloc, which are
/// on the first node.
std::string node_list(const QueuedJob& job, const JobTarget& target) {
    if (target.step.empty() || target.step == "batch" || target.step == "interactive") return job.nodes;
    std::string list(trimmed(answer_of("squeue", step_words(job.id, target.step), "step " + target.text())));
    if (list.empty())
        throw Error(cat("entering step ", target.text(), ": job ", target.job,
                        " runs none of that number; squeue --steps --jobs=", target.job, " lists them"));
    return list;
}

/// What the node's `berth enter` is told.
std::vector<std::string> enter_words(const RunOptions& options, const JobExec& where, const JobTarget& target) {
    std::vector<std::string> out = {own_program_path(), "enter"};
    if (options.request.workdir) out.push_back("--workdir=" + *options.request.workdir);
    for (const std::string& name : options.request.env) out.push_back("--env=" + name);
    if (where.terminal) out.emplace_back("--terminal");
    if (where.ssh_server) out.emplace_back("--ssh-server");
    out.push_back(target.text());
    out.insert(out.end(), options.command.begin(), options.command.end());
    return out;
}

/// ssh ends its ProxyCommand by SIGHUP, of which srun makes a step that was killed, and says so. What is left to ssh is
/// this process; srun sees the end of its input, and its step ends well.
int run_apart(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    Pid srun(::fork());
    if (srun.get() < 0) throw SysError("starting srun");
    if (srun.get() == 0) {
        ::setsid();
        try {
            execute_command(command, environment);
        } catch (const Error& error) {
            std::fprintf(stderr, "berth: %s\n", error.what());
            ::_exit(error.exit_code());
        }
    }
    for (int number : {SIGHUP, SIGINT, SIGPIPE}) ::signal(number, SIG_IGN);
    // Its input is srun's alone, which would not see the end of it otherwise.
    for (int fd : {STDIN_FILENO, STDOUT_FILENO}) ::close(fd);
    return srun.wait();
}

}  // namespace

FoundJob find_job(const JobTarget& target) {
    forget_steering();
    std::string about = "job " + target.job;
    std::vector<QueuedJob> queue = parse_queue(answer_of("squeue", queue_words(target), about));
    FoundJob out{running_job(queue, target, ::getuid()), {}};
    out.nodes = nodes_of(node_list(out.job, target), about);
    return out;
}

int exec_in_job(const RunOptions& options, const JobExec& where) {
    FoundJob found = find_job(where.target);
    StepInJob step{found.job.id, node_of_job(found.nodes, where.node, where.target), where.terminal,
                         binds_tasks(answer_of("scontrol", {"show", "config"}, "its settings")),
                         enter_words(options, where, {found.job.id, where.target.step})};
    std::vector<std::string> command = srun_words(step);
    command.insert(command.begin(), slurm_program("srun"));
    std::vector<std::string> environment = environment_for(options);
    environment.push_back(cat(plan::enters_variable, "=1"));
    if (!where.ssh_server) execute_command(command, environment);
    return run_apart(command, environment);
}

}  // namespace berth::cli
