// What `berth` is when it is called `enroot`, see runtime/cli/enroot.
#pragma once

namespace berth::cli {

/// The arguments are main()'s; the result is the exit code. Errors are told here.
int enroot_program(int argc, char** argv);

}  // namespace berth::cli
