// Ports at which other nodes reach this one.
#include "runtime/host/tcp_port.hh"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/catch.hh"

using namespace berth;

namespace {

uint16_t port_of(const Fd& socket) {
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin6_port);
}

Fd connected_to(uint16_t port) {
    Fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return out;
}

}  // namespace

TEST_CASE("tcp port: one listener a port, and the next one at once, whatever connections there were", "[share]") {
    Fd first = listen_at(0);
    REQUIRE(first);
    uint16_t port = port_of(first);
    CHECK_FALSE(listen_at(port));
    Fd client = connected_to(port), served(::accept(first.get(), nullptr, nullptr));
    REQUIRE(served);
    // The end that closes first is the one that the kernel keeps for a minute.
    served.reset();
    client.reset();
    first.reset();
    CHECK(listen_at(port));
}
