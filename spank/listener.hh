// In srun: a port at which the nodes of a step reach it.
#pragma once
#include "runtime/base/fd.hh"

namespace berth::spank {

struct Listener {
    Fd socket;  ///< close-on-exec
    unsigned port;
};

/// Listens at the first free port from `first` to `last`; both 0: at any. Throws Error.
Listener listen_in(unsigned first, unsigned last);

}  // namespace berth::spank
