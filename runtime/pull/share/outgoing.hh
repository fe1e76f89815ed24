// What the tracker wants to be sent.
#pragma once
#include <cstdint>

#include "runtime/pull/share/messages.hh"

namespace berth::pull::share {

using Connection = uint64_t;  ///< a number never used twice

/// One message to one node.
struct Outgoing {
    Connection to;
    ToNode message;
};

}  // namespace berth::pull::share
