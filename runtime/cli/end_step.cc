// `berth end-step NODE.JOB.STEP`: started by the plugin at the end of a step whose helper was killed, as the step's
// user.
#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/host/facts.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

int end_step(int argc, char** argv) {
    if (argc != 2) throw Error("berth end-step is started by Slurm's plugin only");
    berth::end_step(caller_of_this_process(), argv[1]);
    return 0;
}

}  // namespace berth::cli
