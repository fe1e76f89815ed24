// `berth srun-options`: the options of srun, sbatch and salloc as --list-options prints those of a command, for
// scripts/check-consistency.
#include <cstdio>

#include "runtime/cli/commands.hh"
#include "runtime/request/options.hh"

namespace berth::cli {

int srun_options(int, char**) {
    for (const plan::SrunOption& option : plan::srun_options())
        std::printf("--%s%s\n", option.name, option.argument != nullptr ? "=" : "");
    return 0;
}

}  // namespace berth::cli
