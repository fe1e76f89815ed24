// `berth verify`: checks the store by the program berth-pull, which can hash and fetch.
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"

namespace berth::cli {

int verify(int argc, char** argv) { become_pull_program("verify", {argv + 1, argv + argc}); }

}  // namespace berth::cli
