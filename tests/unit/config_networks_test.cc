#include "runtime/config/networks.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/addresses.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

namespace {

bool is_in(const std::string& network, const std::string& address) {
    return parse_network(network).contains(*parse_address(address));
}

}  // namespace

TEST_CASE("networks: an address is in one when the bits of its prefix are", "[config]") {
    CHECK(is_in("10.0.0.0/8", "10.255.0.1"));
    CHECK_FALSE(is_in("10.0.0.0/8", "11.0.0.1"));
    CHECK(is_in("192.0.2.128/25", "192.0.2.200"));
    CHECK_FALSE(is_in("192.0.2.128/25", "192.0.2.100"));
    CHECK(is_in("192.0.2.7", "192.0.2.7"));
    CHECK_FALSE(is_in("192.0.2.7/32", "192.0.2.6"));
    CHECK(is_in("0.0.0.0/0", "203.0.113.9"));
    CHECK(is_in("fd00::/8", "fdff::1"));
    CHECK_FALSE(is_in("2001:db8::/33", "2001:db8:8000::1"));
    CHECK_FALSE(is_in("0.0.0.0/0", "::1"));
    CHECK_FALSE(is_in("::/0", "10.0.0.1"));
}

TEST_CASE("networks: what is none is refused", "[config]") {
    for (const char* bad : {"", "10", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/x", "10.0.0.0/-1", "fd00::/129",
                            "eth0", "10.0.0.1/8", "fd00::1/8", "/8", "10.0.0.0/8/8", "fe80::1%eth0"})
        CHECK_THROWS_AS(parse_network(bad), Error);
    CHECK_THROWS_WITH(parse_network("10.1.0.0/8"), Catch::Contains("goes on behind the first 8 bits"));
}

TEST_CASE("networks: the first network counts, then the first address", "[config]") {
    std::vector<std::string> addresses = {"127.0.0.1", "192.0.2.5", "10.1.1.1", "10.2.2.2", "fd00::5"};
    CHECK(address_in({"10.0.0.0/8"}, addresses) == "10.1.1.1");
    CHECK(address_in({"fd00::/8", "10.0.0.0/8"}, addresses) == "fd00::5");
    CHECK(address_in({"172.16.0.0/12", "192.0.2.0/24"}, addresses) == "192.0.2.5");
    CHECK_FALSE(address_in({"172.16.0.0/12"}, addresses));
    CHECK_FALSE(address_in({}, addresses));
}

TEST_CASE("networks: ports are a range, one, or any", "[config]") {
    CHECK((parse_port_range("").first == 0 && parse_port_range("").last == 0));
    CHECK((parse_port_range("4000-4100").first == 4000 && parse_port_range("4000-4100").last == 4100));
    CHECK((parse_port_range("65535").first == 65535 && parse_port_range("65535").last == 65535));
    for (const char* bad : {"0", "0-5", "5-4", "65536", "1-65536", "a", "1-", "-1", "1-2-3", "1 2"})
        CHECK_THROWS_AS(parse_port_range(bad), Error);
}

TEST_CASE("networks: this machine has the loopback address, and none of one link alone", "[host]") {
    std::vector<std::string> addresses = addresses_of_this_machine();
    CHECK(std::find(addresses.begin(), addresses.end(), "127.0.0.1") != addresses.end());
    for (const std::string& address : addresses) {
        INFO(address);
        CHECK(parse_address(address));
        CHECK_FALSE(is_in("fe80::/10", address));
    }
}
