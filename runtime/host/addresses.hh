// The addresses of this machine.
#pragma once
#include <string>
#include <vector>

namespace berth {

struct LocalAddress {
    std::string interface;  ///< "ib0"
    std::string address;    ///< without a zone
    unsigned mtu = 0;       ///< of the interface, in bytes; 0 where it cannot be read
};

/// As addresses_of_this_machine(), with the interfaces.
std::vector<LocalAddress> local_addresses();

/// Of all interfaces that are up, as texts without a zone, in the kernel's order; link-local ones are left out, since
/// they mean something on one link alone. Throws SysError.
std::vector<std::string> addresses_of_this_machine();

}  // namespace berth
