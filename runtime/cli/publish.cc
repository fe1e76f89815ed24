// `berth publish`: brings the layers of an image to a registry by the program berth-pull.
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"

namespace berth::cli {

int publish(int argc, char** argv) { become_pull_program("publish", {argv + 1, argv + argc}); }

}  // namespace berth::cli
