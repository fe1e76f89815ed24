#include "runtime/pull/nodes/protocol/connect.hh"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "runtime/base/error.hh"

namespace berth::pull {

namespace {

struct Addresses {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// 0, or an error number.
int connected(int socket, const addrinfo& address, std::chrono::milliseconds patience) {
    if (::connect(socket, address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    if (int number = waited(socket, POLLOUT, patience)) return number;
    int number = 0;
    socklen_t size = sizeof number;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &number, &size) == 0 ? number : errno;
}

void set(int socket, int level, int option, int value) {
    (void)::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

int waited(int socket, short events, std::chrono::milliseconds patience) {
    pollfd entry{socket, events, 0};
    int ready = 0;
    do ready = ::poll(&entry, 1, static_cast<int>(patience.count()));
    while (ready < 0 && errno == EINTR);
    return ready > 0 ? 0 : ready < 0 ? errno : ETIMEDOUT;
}

Connected connect_to(const std::string& host, const std::string& port, std::chrono::milliseconds patience) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); code != 0)
        return {Fd(), ::gai_strerror(code)};
    std::unique_ptr<addrinfo, Addresses> list(found);
    int number = EADDRNOTAVAIL;
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
        Fd out(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        number = out ? connected(out.get(), *address, patience) : errno;
        if (number == 0) return {std::move(out), {}};
    }
    return {Fd(), reason(number)};
}

void keep_alive(int socket) {
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
    set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace berth::pull
