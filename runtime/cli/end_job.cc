// `berth end-job JOB`: started by the plugin from slurmd's epilog, as the job's user.
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/host/facts.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

int end_job(int argc, char** argv) {
    uint64_t job = 0;
    if (argc != 2 || !parse_number(argv[1], UINT32_MAX, job))
        throw Error("berth end-job is started by Slurm's plugin only; use berth rm");
    berth::end_job(caller_of_this_process(), static_cast<uint32_t>(job));
    return 0;
}

}  // namespace berth::cli
