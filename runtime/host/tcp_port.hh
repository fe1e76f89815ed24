// Ports of this node at which a program of Berth's can be asked.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/base/fd.hh"

namespace berth {

/// A TCP socket that listens at the port on this address of the node's (numeric); without one on all of them, of IPv6
/// and IPv4 where there are both. Port 0 is any that is free. Holds nothing when another program has the port, or the
/// address is none of this node's. Throws SysError when there can be no socket.
Fd listen_at(uint16_t port, const std::string& address = {});

/// Where a socket listens.
uint16_t port_of(int socket);

}  // namespace berth
