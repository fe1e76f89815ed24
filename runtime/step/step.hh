// The helper of a Slurm step: makes one container for the tasks of the step on this node and ends with the step.
#pragma once
#include "runtime/base/fd.hh"

namespace berth {

/// Serves one step. `socket` is the helper's end of the step's socket: the request comes first, then each task hands
/// over one end of its own socket pair and is answered there. Returns at the end of file on `socket`, which is what
/// ends the helper in every case, when no process is left in the container. Errors of the start go to the tasks; Error
/// is thrown only when the request itself makes no sense.
void serve_step(Fd socket);

}  // namespace berth
