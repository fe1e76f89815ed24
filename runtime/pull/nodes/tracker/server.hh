// The process beside srun by which the nodes of a step agree what a tag means, and share the image.
#pragma once

namespace berth::pull::share {

/// For main(): `berth-pull agree NODES` answers the nodes of a step until it is killed. Its standard input is the
/// socket that listens; the secret is in the environment (request/frozen.hh). Throws Error.
int agree_command(int argc, char** argv);

}  // namespace berth::pull::share
