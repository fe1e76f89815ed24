#include "runtime/pull/nodes/peer/tracker_client.hh"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "runtime/base/error.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/nodes/protocol/connect.hh"
#include "runtime/pull/nodes/protocol/session.hh"

namespace berth::pull::nodes {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto connecting = std::chrono::milliseconds(2000);
constexpr auto sending = std::chrono::milliseconds(10'000);

std::chrono::milliseconds left_until(Clock::time_point end) {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()), std::chrono::milliseconds(0));
}

}  // namespace

struct TrackerClient::Impl {
    explicit Impl(const MeetingPlace& where)
        : place(where), session(Sender::node, where.secret, random_word()) {}

    [[noreturn]] void fail(const std::string& why) const {
        throw Error(cat("sharing the image with the step's other nodes: srun at ", place.host, " port ", place.port,
                        ": ", why, "; let nodes reach srun (SrunPortRange in slurm.conf)"));
    }

    void connect() {
        auto end = Clock::now() + connecting;
        Connected connected = connect_to(place.host, place.port, connecting);
        if (!connected.socket) fail(connected.why);
        socket = std::move(connected.socket);
        keep_alive(socket.get());
        write_line(session.greeting());
        auto answer = line(end);
        if (!answer) fail(reason(ETIMEDOUT));
        bool is_known = false;
        try {
            is_known = session.take_greeting(*answer);
        } catch (const Error& error) {
            fail(error.what());
        }
        if (!is_known) fail("the answer is not srun's");
    }

    void write_line(std::string text) {
        text += '\n';
        for (size_t sent = 0; sent < text.size();) {
            ssize_t went = ::send(socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
            if (went >= 0) {
                sent += static_cast<size_t>(went);
            } else if (errno == EAGAIN) {
                if (int number = waited(socket.get(), POLLOUT, sending)) fail(reason(number));
            } else if (errno != EINTR) {
                fail(reason(errno));
            }
        }
    }

    /// Nothing when none came in time.
    std::optional<std::string> line(Clock::time_point end) {
        for (;;) {
            if (size_t at = in.find('\n', looked_at); at != std::string::npos) {
                std::string out = in.substr(0, at);
                in.erase(0, at + 1);
                looked_at = 0;
                return out;
            }
            looked_at = in.size();
            if (in.size() > line_limit) fail("a line is too long");
            int number = waited(socket.get(), POLLIN, left_until(end));
            if (number == ETIMEDOUT) return std::nullopt;
            if (number != 0) fail(reason(number));
            char buffer[1 << 16];
            ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
            if (got == 0) fail("the connection has ended");
            if (got < 0 && errno != EAGAIN && errno != EINTR) fail(reason(errno));
            if (got > 0) in.append(buffer, static_cast<size_t>(got));
        }
    }

    MeetingPlace place;
    Session session;
    Fd socket;
    std::mutex sender;
    std::string in;
    size_t looked_at = 0;  ///< of `in`: no line end before
};

TrackerClient::TrackerClient(const MeetingPlace& place) : impl_(std::make_unique<Impl>(place)) { impl_->connect(); }

TrackerClient::~TrackerClient() = default;

std::string TrackerClient::own_address() const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char text[NI_MAXHOST];
    if (::getsockname(impl_->socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        impl_->fail(reason(errno));
    if (int code = ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0,
                                 NI_NUMERICHOST))
        impl_->fail(::gai_strerror(code));
    // Without the name of an interface, which means something on this machine alone.
    return std::string(text).substr(0, std::string(text).find('%'));
}

void TrackerClient::send(const Message& message) {
    std::lock_guard lock(impl_->sender);
    impl_->write_line(impl_->session.wrap(words_of(message)));
}

std::optional<Message> TrackerClient::receive(std::chrono::milliseconds patience) {
    auto line = impl_->line(Clock::now() + patience);
    if (!line) return std::nullopt;
    auto words = impl_->session.unwrap(*line);
    auto message = words ? read_message(*words, Sender::tracker) : std::nullopt;
    if (!message) impl_->fail("what came is no message of srun's");
    return message;
}

void TrackerClient::shut_down() { ::shutdown(impl_->socket.get(), SHUT_RDWR); }

}  // namespace berth::pull::nodes
