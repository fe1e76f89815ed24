#include "runtime/host/tcp_port.hh"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <utility>

#include "runtime/base/error.hh"

namespace berth {

namespace {

/// An address of either family, as the calls of sockets take it.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

/// Nothing for what is no address.
std::optional<SocketAddress> numeric_address(const std::string& text, uint16_t port) {
    SocketAddress out;
    auto* six = reinterpret_cast<sockaddr_in6*>(&out.storage);
    auto* four = reinterpret_cast<sockaddr_in*>(&out.storage);
    if (::inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        out.size = sizeof *six;
    } else if (::inet_pton(AF_INET, text.c_str(), &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        out.size = sizeof *four;
    } else {
        return std::nullopt;
    }
    return out;
}

Fd socket_for(const SocketAddress& address) {
    return Fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

Fd listen_at(uint16_t port, const std::string& address) {
    auto at = numeric_address(address.empty() ? "::" : address, port);
    if (!at) return Fd();
    Fd out = socket_for(*at);
    // There may be no IPv6.
    if (!out && address.empty()) out = socket_for(*(at = numeric_address("0.0.0.0", port)));
    if (!out) throw SysError("making a socket at which other nodes reach this one");
    int off = 0, on = 1;
    if (address.empty() && at->storage.ss_family == AF_INET6)
        ::setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    // Connections of the step before, whose ends the kernel waits for, do not keep the port.
    ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_bound = ::bind(out.get(), reinterpret_cast<sockaddr*>(&at->storage), at->size) == 0;
    return is_bound && ::listen(out.get(), SOMAXCONN) == 0 ? std::move(out) : Fd();
}

uint16_t port_of(int socket) {
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw SysError("asking for the port at which this node is reached");
    // The port is at the same place in both kinds of address.
    return ntohs(address.sin6_port);
}

}  // namespace berth
