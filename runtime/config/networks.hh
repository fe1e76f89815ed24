// Networks and ports as share.networks and share.ports have them, and which of a node's addresses is in one. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// An IPv4 address or an IPv6 address without a zone.
struct Address {
    bool is_six = false;
    std::array<unsigned char, 16> bytes{};  ///< of IPv4 the first four
};

/// "192.0.2.7" or "2001:db8::7"; nothing for any other text.
std::optional<Address> parse_address(const std::string& text);

struct Network {
    Address address;
    unsigned bits = 0;  ///< of the address that count

    bool contains(const Address& other) const;
};

/// "10.0.0.0/8", "fd00::/8", or an address alone. Throws Error, also where bits behind the prefix are set.
Network parse_network(const std::string& text);

/// The first of `addresses` that is in the first network in which there is one; nothing when none is in any.
std::optional<std::string> address_in(const std::vector<std::string>& networks,
                                      const std::vector<std::string>& addresses);

struct PortRange {
    uint16_t first = 0, last = 0;  ///< both 0: any
};

/// "FIRST-LAST", one port, or nothing. Throws Error.
PortRange parse_port_range(const std::string& text);

}  // namespace berth::plan
