// `berth exec`: a command in a named container, which is started when it does not run.
#include "runtime/cli/commands.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/config/command_line.hh"
#include "runtime/request/names.hh"

namespace berth::cli {

int exec(int argc, char** argv) {
    CommandLine line("Run a command in a named container, as it is recorded; it is started when it does not run.",
                     "berth exec");
    RunOptions options;
    std::vector<std::string> environment;
    std::string workdir;
    bool interactive = false;
    line.option("-w,--workdir", workdir, "working directory in the container");
    line.option("-e,--env", environment, "NAME: the value outside beats the image's; NAME=VALUE: set it");
    line.flag("-i,--interactive", interactive, interactive_help);
    line.flag("-t,--tty", options.terminal, terminal_help);
    line.option("--job", options.job, job_help);
    line.argument("name", options.name, "of the container").required();
    line.ends_with_command(options.command);
    if (auto code = line.parse(argc, argv)) return *code;
    plan::check_container_name(options.name);
    if (!workdir.empty()) options.request.workdir = plan::parse_workdir(workdir);
    take_environment(environment, options);
    return run_named(options);
}

}  // namespace berth::cli
