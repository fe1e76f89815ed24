#include "spank/step.hh"

#include <unistd.h>

#include <cstdlib>

#include "runtime/base/text.hh"

namespace berth::spank {

Step& step() {
    // Never destroyed: exit handlers of slurmstepd may still run callbacks, and the watcher's thread must not meet a
    // destructor.
    static Step* const the_step = new Step;
    return *the_step;
}

std::string node_name() {
    // slurmstepd sets it in its own environment; the host name would be wrong with several slurmd on a host.
    if (const char* name = std::getenv("SLURMD_NODENAME")) return printable(name);
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return printable(name);
}

}  // namespace berth::spank
