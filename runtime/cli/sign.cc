// `berth sign`: signs an image in its registry by the program berth-pull.
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"

namespace berth::cli {

int sign(int argc, char** argv) { become_pull_program("sign", {argv + 1, argv + argc}); }

}  // namespace berth::cli
