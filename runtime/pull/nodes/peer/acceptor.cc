#include "runtime/pull/nodes/peer/acceptor.hh"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "runtime/base/error.hh"

namespace berth::pull::nodes {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto begin_patience = std::chrono::seconds(10);
constexpr int look_ms = 200;
constexpr Newcomers::Id of_listening = 0, of_end = 1;

bool watch(const Fd& epoll, int socket, uint32_t events, Newcomers::Id id) {
    epoll_event event{events, {.u64 = id}};
    return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket, &event) == 0;
}

}  // namespace

Begun has_begun(std::string_view said) {
    // A record of a handshake: its kind, two bytes of a version, two of its length.
    constexpr size_t head = 5;
    constexpr unsigned char handshake = 22, version = 3;
    auto byte = [&](size_t at) { return static_cast<unsigned char>(said[at]); };
    if (said.empty()) return Begun::not_yet;
    if (byte(0) != handshake || (said.size() > 1 && byte(1) != version)) return Begun::no;
    if (said.size() < head) return Begun::not_yet;
    size_t size = head + (size_t{byte(3)} << 8 | byte(4));
    if (size > first_message_limit) return Begun::no;
    return said.size() < size ? Begun::not_yet : Begun::yes;
}

Acceptor::Acceptor(Fd listening, Settings settings)
    : listening_(std::move(listening)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      end_(::eventfd(0, EFD_CLOEXEC)),
      settings_(std::move(settings)),
      newcomers_(settings_.newcomers, begin_patience) {
    int flags = ::fcntl(listening_.get(), F_GETFL);
    bool is_ready = epoll_ && end_ && ::fcntl(listening_.get(), F_SETFL, flags | O_NONBLOCK) == 0 &&
                    watch(epoll_, listening_.get(), EPOLLIN, of_listening) &&
                    watch(epoll_, end_.get(), EPOLLIN, of_end);
    if (!is_ready) throw SysError("waiting for the step's nodes at the port at which this one serves layers");
    thread_ = std::thread([this] { work(); });
}

Acceptor::~Acceptor() {
    uint64_t one = 1;
    while (::write(end_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
}

void Acceptor::work() {
    std::array<epoll_event, 256> events;
    for (auto looked = Clock::now();;) {
        int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), look_ms);
        for (int i = 0; i < ready; ++i) {
            Newcomers::Id id = events[static_cast<size_t>(i)].data.u64;
            if (id == of_end) return;
            id == of_listening ? take_new() : look_at(id);
        }
        auto now = Clock::now();
        drop(newcomers_.take_overdue(now));
        if (now - looked < std::chrono::milliseconds(look_ms / 2)) continue;
        looked = now;
        settings_.look();
    }
}

void Acceptor::take_new() {
    for (int i = 0; i < 64; ++i) {
        Connection one;
        one.from_size = sizeof one.from;
        one.socket = Fd(::accept4(listening_.get(), reinterpret_cast<sockaddr*>(&one.from), &one.from_size,
                                  SOCK_CLOEXEC | SOCK_NONBLOCK));
        // All files are open: others are let go for it. The pause is for who works meanwhile.
        if (!one.socket && (errno == EMFILE || errno == ENFILE)) {
            drop(newcomers_.take_oldest());
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        if (!one.socket) return;
        Newcomers::Id id = next_++;
        // Told once of each part that comes: what has come is not taken out before all of it is here.
        if (!watch(epoll_, one.socket.get(), EPOLLIN | EPOLLRDHUP | EPOLLET, id)) continue;
        newcomers_.add(id, Clock::now());
        connections_.emplace(id, std::move(one));
    }
}

void Acceptor::look_at(Newcomers::Id id) {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    std::array<char, first_message_limit> said;
    ssize_t got = ::recv(found->second.socket.get(), said.data(), said.size(), MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    Begun begun = got <= 0 ? Begun::no : has_begun({said.data(), static_cast<size_t>(got)});
    if (begun == Begun::not_yet) return;
    Connection one = std::move(found->second);
    connections_.erase(found);
    newcomers_.remove(id);
    if (begun == Begun::no) return;
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.socket.get(), nullptr);
    settings_.take(std::move(one));
}

void Acceptor::drop(const std::vector<Newcomers::Id>& those) {
    for (Newcomers::Id id : those) connections_.erase(id);
}

}  // namespace berth::pull::nodes
