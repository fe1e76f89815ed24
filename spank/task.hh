// A task joins the container: in the task's own process, as the user, just before slurmstepd executes the command.
#pragma once
#include "spank/slurm.hh"

namespace berth::spank {

/// Returns inside the container, or prints one line to the task's standard error and ends the process with berth's exit
/// code.
void join_container(spank_t spank);

}  // namespace berth::spank
