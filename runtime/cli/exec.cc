// `berth exec`: a command in a named container, which is started when it does not run.
#include <CLI/CLI.hpp>

#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/plan/names.hh"

namespace berth::cli {

int exec(int argc, char** argv) {
    CLI::App app("Run a command in a named container, as it is recorded; it is started when it does not run.", "berth exec");
    RunOptions options;
    std::vector<std::string> environment;
    std::string workdir;
    bool interactive = false;
    app.add_option("-w,--workdir", workdir, "working directory in the container");
    app.add_option("-e,--env", environment, "NAME: the value outside beats the image's; NAME=VALUE: set it")->allow_extra_args(false);
    app.add_flag("-i,--interactive", interactive, interactive_help);
    app.add_flag("-t,--tty", options.terminal, terminal_help);
    app.add_option("--job", options.job, job_help);
    app.add_option("name", options.name, "of the container")->required();
    app.prefix_command();
    app.positionals_at_end(false);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    options.command = app.remaining();
    if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
    plan::check_container_name(options.name);
    if (!workdir.empty()) options.request.workdir = plan::parse_workdir(workdir);
    take_environment(environment, options);
    return run_named(options);
}

}  // namespace berth::cli
