#include "spank/listener.hh"

#include <netinet/in.h>
#include <sys/socket.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

/// IPv4 peers come over the same socket where the machine has IPv6 at all. Empty when the port is taken.
Fd listening_at(unsigned port) {
    Fd out(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bool six = static_cast<bool>(out);
    if (!six) out = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!out) throw SysError("making the socket at which the step's nodes reach srun");
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(static_cast<uint16_t>(port));
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = any6.sin6_port;
    int only = 0;
    if (six) ::setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    int bound = six ? ::bind(out.get(), reinterpret_cast<sockaddr*>(&any6), sizeof any6)
                    : ::bind(out.get(), reinterpret_cast<sockaddr*>(&any4), sizeof any4);
    return bound == 0 && ::listen(out.get(), SOMAXCONN) == 0 ? std::move(out) : Fd();
}

unsigned port_of(const Fd& socket) {
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw SysError("asking for the port of a socket");
    // The port is at the same place in both kinds of address.
    return ntohs(address.sin6_port);
}

}  // namespace

Listener listen_in(unsigned first, unsigned last) {
    for (unsigned port = first; port <= last; ++port)
        if (Fd out = listening_at(port)) {
            unsigned found = port_of(out);
            return {std::move(out), found};
        }
    throw Error(cat("opening a port at which the step's nodes reach srun: none of ", first, " to ", last,
                    " is free; see SrunPortRange in slurm.conf"));
}

}  // namespace berth::spank
