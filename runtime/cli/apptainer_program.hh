// What `berth` is when it is called `apptainer` or `singularity`, see runtime/cli/apptainer.
#pragma once

namespace berth::cli {

/// The arguments are main()'s; the result is the exit code. Errors are told here.
int apptainer_program(int argc, char** argv);

}  // namespace berth::cli
