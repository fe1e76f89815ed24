// `berth exec`: a command in a named container, which is started when it does not run.
#include "runtime/cli/commands.hh"
#include "runtime/cli/run_named.hh"

namespace berth::cli {

int exec(int argc, char** argv) {
    RunOptions options;
    int code = 0;
    return parse_exec_options(argc, argv, options, code) ? run_named(options) : code;
}

}  // namespace berth::cli
