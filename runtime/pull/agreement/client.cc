#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/agreement/agreement.hh"

namespace berth::pull {

namespace {

constexpr int timeout_ms = 10'000;

struct Addresses {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// 0 when the socket has `events` within the time, else an error number.
int waited(int socket, short events) {
    pollfd entry{socket, events, 0};
    int ready = 0;
    do ready = ::poll(&entry, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0 ? 0 : ready < 0 ? errno : ETIMEDOUT;
}

/// 0, or an error number.
int connected(int socket, const addrinfo& address) {
    if (::connect(socket, address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    if (int number = waited(socket, POLLOUT)) return number;
    int number = 0;
    socklen_t size = sizeof number;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &number, &size) == 0 ? number : errno;
}

[[noreturn]] void fail(const MeetingPlace& place, const std::string& what, const std::string& why) {
    throw Error(cat("agreeing with the step's other nodes on ", what, ": asking srun at ", place.host, " port ",
                    place.port, ": ", why,
                    "; name the image by digest, or let nodes reach srun (SrunPortRange in slurm.conf)"));
}

Fd connection(const MeetingPlace& place, const std::string& what) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (int code = ::getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found); code != 0)
        fail(place, what, ::gai_strerror(code));
    std::unique_ptr<addrinfo, Addresses> list(found);
    int number = EADDRNOTAVAIL;
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
        Fd out(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        number = out ? connected(out.get(), *address) : errno;
        if (number == 0) return out;
    }
    fail(place, what, reason(number));
}

/// Up to the line's end, which is not in it.
std::string line_from(const Fd& socket, const MeetingPlace& place, const std::string& what) {
    std::string out;
    for (;;) {
        if (int number = waited(socket.get(), POLLIN)) fail(place, what, reason(number));
        char buffer[agreement_line_limit];
        ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) fail(place, what, reason(errno));
        out.append(buffer, static_cast<size_t>(got));
        if (size_t end = out.find('\n'); end != std::string::npos) return out.substr(0, end);
        if (got == 0 || out.size() > agreement_line_limit) fail(place, what, "no answer");
    }
}

std::optional<Agreed> answer_in(const std::string& line, const MeetingPlace& place, const std::string& nonce,
                                const std::string& what) try {
    return read_agreement(place.secret, nonce, line);
} catch (const Error& error) {
    throw Error(cat("agreeing with the step's other nodes on ", what, ": ", error.what(),
                    "; name the image by digest, or choose nodes of srun's release"));
}

}  // namespace

Agreed agree(const MeetingPlace& place, const Digest& digest, const std::string& what) {
    std::string nonce = random_word(), question = agreement_question(place.secret, place.node, digest, nonce) + '\n';
    Fd socket = connection(place, what);
    if (::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(question.size()))
        fail(place, what, reason(errno));
    std::string line = line_from(socket, place, what);
    auto agreed = answer_in(line, place, nonce, what);
    if (!agreed) fail(place, what, "the answer is not srun's");
    return *agreed;
}

}  // namespace berth::pull
