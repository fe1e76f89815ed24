// `berth ssh-config`: how ssh reaches the container of a job's step, for ~/.ssh/config.
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/exec_job.hh"
#include "runtime/cli/ssh_keys.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/own_program.hh"

namespace berth::cli {

namespace {

/// It becomes a word of a shell's command line, on the machine of whoever uses the configuration.
void check_login(const std::string& login) {
    for (char c : login) {
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && std::string_view("._-@:").find(c) == std::string_view::npos)
            throw Error(cat("--login ", printable(login), ": write a host as ssh takes it, such as login.example.org"));
    }
    if (login.starts_with('-')) throw Error(cat("--login ", printable(login), ": a host does not begin with a dash"));
}

}  // namespace

int ssh_config(int argc, char** argv) {
    CommandLine line("Print what ssh needs in its configuration to reach the container of a job's step.",
                     "berth ssh-config");
    std::string target;
    SshConfig config;
    line.option("--login", config.login,
                "for another machine than this one: the host by which it reaches this one, where srun can be run");
    line.argument("job", target, "JOB[.STEP], a job of yours that runs").required();
    if (auto code = line.parse(argc, argv)) return *code;
    check_login(config.login);
    config.target = parse_job_target(target);
    plan::Caller caller = caller_of_this_process();
    FoundJob found = find_job(config.target);
    config.nodes = found.nodes;
    config.account = caller.user;
    config.program = own_program_path();
    config.files = SshFiles(caller.home);
    make_ssh_keys(config.files);
    std::fputs(ssh_config(config).c_str(), stdout);
    return 0;
}

}  // namespace berth::cli
