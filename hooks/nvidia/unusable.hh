// GPUs that no program can use: a step that was to have one is told so in one line, and all others start.
#pragma once
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/nvidia/choose.hh"

namespace berth::hooks {

/// Why no program can use a GPU that the driver has; empty for one of which nothing bad is known.
std::string why_unusable(const Host& host, const Gpu& gpu);

/// Throws Error for a GPU that is asked for by its UUID or address and cannot be used, before choose() says that it is
/// not there.
void check_named_gpus(const Host& host, const Driver& driver, const NvidiaRequest& request);

/// After choose(): throws Error for a GPU of the step's that cannot be used. What nobody has counted on, as with "all"
/// outside of Slurm, is left out with a line in the choice's warnings.
void check_usable(const Host& host, const Driver& driver, const NvidiaRequest& request, Choice& choice);

}  // namespace berth::hooks
