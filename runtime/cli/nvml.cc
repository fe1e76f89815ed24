// `berth nvml`: what NVML tells, a line a fact; started by berth itself, since a library of a driver may do to its
// process what it likes.
#include <cstdio>
#include <string>

#include "hooks/nvidia/nvml.hh"
#include "runtime/cli/commands.hh"

namespace berth::cli {

int nvml(int argc, char** argv) {
    std::fputs(hooks::nvml_text(argc > 1 ? argv[1] : "libnvidia-ml.so.1").c_str(), stdout);
    return 0;
}

}  // namespace berth::cli
