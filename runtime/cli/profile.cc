// `berth profile`: `berth run`, and what the command reads of the image is kept with it.
#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/run_new.hh"
#include "runtime/cli/run_options.hh"

namespace berth::cli {

int profile(int argc, char** argv) {
    RunOptions options;
    int code = 0;
    if (!parse_run_options("profile", argc, argv, options, code)) return code;
    if (options.request.name)
        throw Error("berth profile: --name cannot be used with it: a named container has more than its image");
    options.record = true;
    return run_new(options);
}

}  // namespace berth::cli
