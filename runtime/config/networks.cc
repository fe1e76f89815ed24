#include "runtime/config/networks.hh"

#include <arpa/inet.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

unsigned bit_count(const Address& address) { return address.is_six ? 128 : 32; }

bool bit(const Address& address, unsigned at) { return (address.bytes[at / 8] >> (7 - at % 8) & 1) != 0; }

}  // namespace

std::optional<Address> parse_address(const std::string& text) {
    Address out;
    if (text.find('\0') != std::string::npos) return std::nullopt;
    out.is_six = text.find(':') != std::string::npos;
    if (::inet_pton(out.is_six ? AF_INET6 : AF_INET, text.c_str(), out.bytes.data()) != 1) return std::nullopt;
    return out;
}

bool Network::contains(const Address& other) const {
    if (other.is_six != address.is_six) return false;
    for (unsigned at = 0; at < bits; ++at)
        if (bit(address, at) != bit(other, at)) return false;
    return true;
}

Network parse_network(const std::string& text) {
    size_t slash = text.find('/');
    auto address = parse_address(text.substr(0, slash));
    if (!address) throw Error("it is no network such as 10.0.0.0/8 or fd00::/8");
    uint64_t bits = bit_count(*address);
    if (slash != std::string::npos && !parse_number(text.substr(slash + 1), bit_count(*address), bits))
        throw Error(cat("behind / there must be a number from 0 to ", bit_count(*address)));
    for (unsigned at = static_cast<unsigned>(bits); at < bit_count(*address); ++at)
        if (bit(*address, at)) throw Error(cat("the address goes on behind the first ", bits, " bits"));
    return {*address, static_cast<unsigned>(bits)};
}

std::optional<std::string> address_in(const std::vector<std::string>& networks,
                                      const std::vector<std::string>& addresses) {
    for (const std::string& text : networks) {
        Network network = parse_network(text);
        for (const std::string& candidate : addresses)
            if (auto address = parse_address(candidate); address && network.contains(*address)) return candidate;
    }
    return std::nullopt;
}

PortRange parse_port_range(const std::string& text) {
    if (text.empty()) return {};
    size_t dash = text.find('-');
    uint64_t first = 0, last = 0;
    bool is_range = parse_number(text.substr(0, dash), 65535, first) &&
                    parse_number(dash == std::string::npos ? text : text.substr(dash + 1), 65535, last);
    if (!is_range || first == 0 || first > last) throw Error("it is no range of ports such as 40000-40999");
    return {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

}  // namespace berth::plan
