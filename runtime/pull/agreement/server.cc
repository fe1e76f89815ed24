#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/agreement/agreement.hh"

namespace berth::pull {

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t connection_limit = 512;
constexpr auto timeout = std::chrono::seconds(10);

struct Connection {
    Fd socket;
    Clock::time_point end;
    std::string text;
};

Fd listener(unsigned first, unsigned last) {
    for (unsigned port = first; port <= last; ++port) {
        // IPv4 peers come over the same socket where the machine has IPv6 at all.
        Fd out(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        bool six = static_cast<bool>(out);
        if (!six) out = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!out) throw SysError("making the socket at which the step's nodes agree on a digest");
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
        if (bound == 0 && ::listen(out.get(), SOMAXCONN) == 0) return out;
    }
    throw Error(cat("opening a port at which the step's nodes agree on a digest: none of ", first, " to ", last,
                    " is free; see SrunPortRange in slurm.conf"));
}

unsigned port_of(const Fd& socket) {
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw SysError("asking for the port of a socket");
    // The port is at the same place in both kinds of address.
    return ntohs(address.sin6_port);
}

/// False when the connection has had its answer or will have none.
bool serve(Connection& peer, Agreement& agreement) {
    char buffer[agreement_line_limit];
    ssize_t got = ::recv(peer.socket.get(), buffer, sizeof buffer, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    peer.text.append(buffer, static_cast<size_t>(got));
    size_t end = peer.text.find('\n');
    if (end == std::string::npos) return got > 0 && peer.text.size() <= agreement_line_limit;
    std::string answer = agreement.answer(std::string_view(peer.text).substr(0, end));
    // The first bytes that are sent over this socket, which takes far more at once.
    if (!answer.empty()) (void)::send(peer.socket.get(), (answer + '\n').c_str(), answer.size() + 1, MSG_NOSIGNAL);
    return false;
}

/// A node asks as soon as it is connected. Whoever does not, be it five hundred times, keeps no other from asking.
void make_room(std::vector<Connection>& peers) {
    if (peers.size() < connection_limit) return;
    auto oldest = std::find_if(peers.begin(), peers.end(), [](const Connection& peer) { return peer.text.empty(); });
    peers.erase(oldest == peers.end() ? peers.begin() : oldest);
}

[[noreturn]] void serve_all(const Fd& listening, Agreement& agreement) {
    for (std::vector<Connection> peers;;) {
        std::vector<pollfd> waiting = {{listening.get(), POLLIN, 0}};
        for (const Connection& peer : peers) waiting.push_back({peer.socket.get(), POLLIN, 0});
        int ready = ::poll(waiting.data(), waiting.size(), peers.empty() ? -1 : 1000);
        if (ready < 0 && errno != EINTR) throw SysError("waiting for the step's nodes");
        for (size_t i = peers.size(); i-- > 0;)
            if ((waiting[i + 1].revents != 0 && !serve(peers[i], agreement)) || Clock::now() > peers[i].end)
                peers.erase(peers.begin() + static_cast<ptrdiff_t>(i));
        if ((waiting[0].revents & POLLIN) == 0) continue;
        make_room(peers);
        if (Fd peer{::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)})
            peers.push_back({std::move(peer), Clock::now() + timeout, {}});
    }
}

}  // namespace

int agree_command(int argc, char** argv) {
    uint64_t first = 0, last = 0;
    if (argc != 3 || !parse_number(argv[1], 65535, first) || !parse_number(argv[2], 65535, last) || first > last)
        throw Error("berth agree FIRST-PORT LAST-PORT is for srun");
    // It is srun's, whatever becomes of that.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == 1) return 0;
    Fd listening = listener(static_cast<unsigned>(first), static_cast<unsigned>(last));
    std::string secret = random_word();
    std::printf("%u %s\n", port_of(listening), secret.c_str());
    if (std::fflush(stdout) != 0) throw SysError("telling srun where the step's nodes agree");
    Agreement agreement(secret);
    serve_all(listening, agreement);
}

}  // namespace berth::pull
