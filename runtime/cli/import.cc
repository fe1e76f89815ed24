// `berth import`: an image as one squashfs file, written by the program berth-pull.
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"

namespace berth::cli {

int import(int argc, char** argv) { become_pull_program("import", {argv + 1, argv + argc}); }

}  // namespace berth::cli
