#include "runtime/pull/share/connections.hh"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/pull/agreement/connect.hh"
#include "runtime/pull/share/messages.hh"
#include "runtime/pull/share/session.hh"

namespace berth::pull::share {

namespace {

constexpr auto silence = std::chrono::seconds(10);
constexpr size_t queue_limit = 64 << 20;  // bytes that a connection may leave unread
constexpr size_t spare_files = 32;        // for what this process has open besides

/// As many as the kernel allows; how many connections that is.
size_t raise_file_limit() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) throw SysError("asking for the limit of open files");
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) throw SysError("asking for the limit of open files");
    return std::max<size_t>(files.rlim_cur, 2 * spare_files) - spare_files;
}

}  // namespace

Connections::Connections(Fd listening)
    : listening_(std::move(listening)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), limit_(raise_file_limit()) {
    epoll_event event{EPOLLIN, {.u64 = 0}};
    if (!epoll_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listening_.get(), &event) != 0)
        throw SysError("waiting for the step's nodes");
}

std::vector<Connections::Arrived> Connections::wait(std::chrono::milliseconds patience) {
    std::vector<Arrived> out;
    std::array<epoll_event, 256> events;
    auto most = peers_.size() > accepted_ ? std::chrono::milliseconds(1000) : patience;
    if (patience.count() >= 0) most = std::min(most, patience);
    if (!ended_.empty()) most = std::chrono::milliseconds(0);
    int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                             static_cast<int>(most.count()));
    if (ready < 0 && errno != EINTR) throw SysError("waiting for the step's nodes");
    for (int i = 0; i < ready; ++i) {
        Id id = events[static_cast<size_t>(i)].data.u64;
        uint32_t happened = events[static_cast<size_t>(i)].events;
        if (id == 0) take_new();
        auto found = peers_.find(id);
        if (found == peers_.end()) continue;
        bool lives = (happened & EPOLLOUT) == 0 || write(id, found->second);
        if (lives && (happened & ~uint32_t{EPOLLOUT}) != 0) lives = read(id, found->second, out);
        if (!lives) end(id);
    }
    drop_silent();
    for (Id id : ended_) out.push_back({id, std::nullopt});
    ended_.clear();
    return out;
}

void Connections::take_new() {
    for (int i = 0; i < 64; ++i) {
        make_room();
        Fd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) return;
        keep_alive(socket.get());
        Id id = next_++;
        epoll_event event{EPOLLIN, {.u64 = id}};
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) continue;
        Peer peer;
        peer.socket = std::move(socket);
        peer.came = Clock::now();
        peers_.emplace(id, std::move(peer));
        strangers_.push_back(id);
    }
}

/// A node speaks as soon as it is connected. Those who do not, be they many, keep no other from doing so.
void Connections::make_room() {
    while (peers_.size() >= limit_ && !strangers_.empty()) {
        auto found = peers_.find(strangers_.front());
        if (found != peers_.end() && !found->second.is_accepted) peers_.erase(found);
        strangers_.pop_front();
    }
}

void Connections::drop_silent() {
    for (; !strangers_.empty(); strangers_.pop_front()) {
        auto found = peers_.find(strangers_.front());
        if (found == peers_.end() || found->second.is_accepted) continue;
        if (Clock::now() - found->second.came < silence) return;
        peers_.erase(found);
    }
}

/// False when the connection is to end. Lines that came before that are told.
bool Connections::read(Id id, Peer& peer, std::vector<Arrived>& out) {
    char buffer[1 << 16];
    ssize_t got = ::recv(peer.socket.get(), buffer, sizeof buffer, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0 || peer.is_closing) return false;
    peer.in.append(buffer, static_cast<size_t>(got));
    size_t start = 0;
    for (;;) {
        size_t end = peer.in.find('\n', std::max(start, peer.looked_at));
        if (end == std::string::npos) break;
        out.push_back({id, peer.in.substr(start, end - start)});
        start = end + 1;
    }
    peer.in.erase(0, start);
    peer.looked_at = peer.in.size();
    return peer.in.size() <= (peer.is_accepted ? line_limit : greeting_limit);
}

/// False when the connection is to end.
bool Connections::write(Id id, Peer& peer) {
    while (peer.sent < peer.out.size()) {
        ssize_t went =
            ::send(peer.socket.get(), peer.out.data() + peer.sent, peer.out.size() - peer.sent, MSG_NOSIGNAL);
        if (went < 0 && errno == EINTR) continue;
        if (went < 0 && errno == EAGAIN) {
            wait_for(id, peer, true);
            return true;
        }
        if (went < 0) return false;
        peer.sent += static_cast<size_t>(went);
    }
    peer.out = {};
    peer.sent = 0;
    wait_for(id, peer, false);
    return !peer.is_closing;
}

void Connections::wait_for(Id id, Peer& peer, bool writing) {
    if (peer.is_writing == writing) return;
    peer.is_writing = writing;
    epoll_event event{EPOLLIN, {.u64 = id}};
    if (writing) event.events = EPOLLIN | EPOLLOUT;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.socket.get(), &event) != 0)
        throw SysError("waiting for the step's nodes");
}

void Connections::accept(Id connection) {
    auto found = peers_.find(connection);
    if (found == peers_.end() || found->second.is_accepted) return;
    found->second.is_accepted = true;
    ++accepted_;
}

void Connections::send(Id connection, std::string_view line) {
    auto found = peers_.find(connection);
    if (found == peers_.end()) return;
    Peer& peer = found->second;
    peer.out.append(line).push_back('\n');
    // Who is waited for gets it with the rest.
    bool lives = peer.is_writing ? peer.out.size() - peer.sent <= queue_limit : write(connection, peer);
    if (!lives) end(connection);
}

void Connections::close(Id connection) {
    auto found = peers_.find(connection);
    if (found == peers_.end()) return;
    found->second.is_closing = true;
    if (found->second.is_accepted) --accepted_;
    found->second.is_accepted = false;
    if (found->second.is_writing)
        strangers_.push_back(connection);
    else
        peers_.erase(found);
}

void Connections::end(Id id) {
    auto found = peers_.find(id);
    if (found == peers_.end()) return;
    if (found->second.is_accepted) {
        --accepted_;
        ended_.push_back(id);
    }
    peers_.erase(found);
}

}  // namespace berth::pull::share
