// Ports of this node at which a program of Berth's can be asked.
#pragma once
#include <cstdint>

#include "runtime/base/fd.hh"

namespace berth {

/// A TCP socket that listens at the port on all addresses of this node, of IPv6 and IPv4 where there are both. Port 0
/// is any that is free. Holds nothing when another program has the port. Throws SysError when there can be no socket.
Fd listen_at(uint16_t port);

}  // namespace berth
