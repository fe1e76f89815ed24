#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "runtime/pull/nodes/protocol/connect.hh"

namespace berth::pull {

namespace {

constexpr auto timeout = std::chrono::seconds(10);

[[noreturn]] void fail(const MeetingPlace& place, const std::string& what, const std::string& why) {
    throw Error(cat("agreeing with the step's other nodes on ", what, ": asking srun at ", place.host, " port ",
                    place.port, ": ", why,
                    "; name the image by digest, or let nodes reach srun (SrunPortRange in slurm.conf)"));
}

Fd connection(const MeetingPlace& place, const std::string& what) {
    Connected out = connect_to(place.host, place.port, timeout);
    if (!out.socket) fail(place, what, out.why);
    return std::move(out.socket);
}

/// Up to the line's end, which is not in it.
std::string line_from(const Fd& socket, const MeetingPlace& place, const std::string& what) {
    std::string out;
    for (;;) {
        if (int number = waited(socket.get(), POLLIN, timeout)) fail(place, what, reason(number));
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
