// The addresses of this machine.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace berth {

struct LocalAddress {
    std::string interface;  ///< "ib0"
    std::string address;    ///< without a zone
    unsigned mtu = 0;       ///< of the interface, in bytes; 0 where it cannot be read
    /// Mbit/s of the interface's link, as its driver tells; 0 where it is not known, as of most virtual ones and of one
    /// that is down.
    uint64_t speed = 0;
};

/// As addresses_of_this_machine(), with the interfaces. `classes` is sysfs's folder of them; Documentation/ABI/testing/
/// sysfs-class-net in the kernel's source describes what is read there.
std::vector<LocalAddress> local_addresses(const std::string& classes = "/sys/class/net");

/// LocalAddress::speed of the one with this address; 0 when there is none. Throws SysError.
uint64_t link_speed(const std::string& address, const std::string& classes = "/sys/class/net");

/// Of all interfaces that are up, as texts without a zone, in the kernel's order; link-local ones are left out, since
/// they mean something on one link alone. Throws SysError.
std::vector<std::string> addresses_of_this_machine();

}  // namespace berth
