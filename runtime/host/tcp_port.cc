#include "runtime/host/tcp_port.hh"

#include <netinet/in.h>
#include <sys/socket.h>

#include "runtime/base/error.hh"

namespace berth {

namespace {

constexpr int waiting_connections = 64;

bool bind_to(const Fd& socket, bool is_six, uint16_t port) {
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(port);
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = any6.sin6_port;
    int code = is_six ? ::bind(socket.get(), reinterpret_cast<sockaddr*>(&any6), sizeof any6)
                      : ::bind(socket.get(), reinterpret_cast<sockaddr*>(&any4), sizeof any4);
    return code == 0;
}

}  // namespace

Fd listen_at(uint16_t port) {
    Fd out(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bool is_six = out.get() >= 0;
    if (!is_six) out = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (out.get() < 0) throw SysError("making a socket at which other nodes reach this one");
    int off = 0, on = 1;
    if (is_six) ::setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    // Connections of the step before, whose ends the kernel waits for, do not keep the port.
    ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind_to(out, is_six, port) || ::listen(out.get(), waiting_connections) != 0) return Fd();
    return out;
}

}  // namespace berth
