// `berth nvml [LIBRARY [BUS...]]`: what NVML tells, a line a fact; started by berth itself, since a library of a driver
// may do to its process what it likes.
#include <cstdio>
#include <string>
#include <vector>

#include "hooks/nvidia/nvml.hh"
#include "runtime/cli/commands.hh"

namespace berth::cli {

int nvml(int argc, char** argv) {
    std::vector<std::string> buses;
    for (int i = 2; i < argc; ++i) buses.emplace_back(argv[i]);
    std::fputs(hooks::nvml_text(argc > 1 ? argv[1] : "libnvidia-ml.so.1", buses).c_str(), stdout);
    return 0;
}

}  // namespace berth::cli
