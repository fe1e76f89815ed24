#include "runtime/pull/nodes/tracker/connections.hh"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/pull/nodes/protocol/connect.hh"
#include "runtime/pull/nodes/protocol/messages.hh"
#include "runtime/pull/nodes/protocol/session.hh"

namespace berth::pull::nodes {

namespace {

constexpr auto patience_with_newcomers = std::chrono::seconds(10);
/// Of each kind. Those of a step of thousands of nodes come at once.
constexpr size_t newcomer_limit = 4096;
constexpr size_t queue_limit = 64 << 20;  // bytes that a connection may leave unread
constexpr size_t spare_files = 32;        // for what this process has open besides

/// How many connections there can be.
size_t connection_limit() { return std::max<size_t>(raise_file_limit(), 2 * spare_files) - spare_files; }

}  // namespace

Connections::Connections(Fd listening)
    : listening_(std::move(listening)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      limit_(connection_limit()),
      strangers_(std::min(newcomer_limit, limit_ / 4), patience_with_newcomers),
      greeted_(std::min(newcomer_limit, limit_ / 4), patience_with_newcomers) {
    epoll_event event{EPOLLIN, {.u64 = 0}};
    if (!epoll_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listening_.get(), &event) != 0)
        throw SysError("waiting for the step's nodes");
}

std::vector<Connections::Arrived> Connections::wait(std::chrono::milliseconds patience) {
    std::vector<Arrived> out;
    std::array<epoll_event, 256> events;
    auto most = peers_.size() > accepted_ ? std::chrono::milliseconds(1000) : patience;
    if (patience.count() >= 0) most = std::min(most, patience);
    if (!ended_.empty() || !resumed_.empty()) most = std::chrono::milliseconds(0);
    int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                             static_cast<int>(most.count()));
    if (ready < 0 && errno != EINTR) throw SysError("waiting for the step's nodes");
    for (Id id : std::exchange(resumed_, {}))
        if (auto found = peers_.find(id); found != peers_.end() && !take_lines(id, found->second, out)) end(id);
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
    drop_overdue();
    for (Id id : ended_) out.push_back({id, std::nullopt});
    ended_.clear();
    return out;
}

void Connections::take_new() {
    for (int i = 0; i < 64; ++i) {
        Fd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) return;
        // Else it is closed: all that there is room for are of the step.
        if (!make_room()) continue;
        Id id = next_++;
        epoll_event event{EPOLLIN, {.u64 = id}};
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) continue;
        Peer peer;
        peer.socket = std::move(socket);
        peer.came = Clock::now();
        strangers_.add(id, peer.came);
        peers_.emplace(id, std::move(peer));
    }
}

/// A node speaks as soon as it is connected. Those who do not, be they many, keep no other from doing so.
bool Connections::make_room() {
    for (Newcomers* newcomers : {&strangers_, &greeted_})
        while (peers_.size() >= limit_ && !newcomers->is_empty())
            for (Id id : newcomers->take_oldest()) end(id);
    return peers_.size() < limit_;
}

void Connections::drop_overdue() {
    for (Newcomers* newcomers : {&strangers_, &greeted_})
        for (Id id : newcomers->take_overdue(Clock::now())) end(id);
}

/// False when the connection is to end. Lines that came before that are told.
bool Connections::read(Id id, Peer& peer, std::vector<Arrived>& out) {
    char buffer[1 << 16];
    size_t most = peer.stage == Stage::accepted ? sizeof buffer : greeting_limit + 1;
    ssize_t got = ::recv(peer.socket.get(), buffer, most, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0 || peer.is_closing) return false;
    peer.in.append(buffer, static_cast<size_t>(got));
    return take_lines(id, peer, out);
}

/// The same. Of one that is not accepted the first line alone: what follows depends on what is made of that.
bool Connections::take_lines(Id id, Peer& peer, std::vector<Arrived>& out) {
    bool is_accepted = peer.stage == Stage::accepted;
    size_t start = 0;
    for (bool goes_on = true; goes_on;) {
        size_t end = peer.in.find('\n', std::max(start, peer.looked_at));
        if (end == std::string::npos) break;
        if (peer.stage == Stage::stranger && end + 1 < peer.in.size()) return false;
        out.push_back({id, peer.in.substr(start, end - start)});
        start = end + 1;
        goes_on = is_accepted;
    }
    peer.in.erase(0, start);
    peer.looked_at = is_accepted ? peer.in.size() : 0;
    return peer.in.size() <= (is_accepted ? line_limit : greeting_limit);
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

bool Connections::greet(Id connection) {
    auto found = peers_.find(connection);
    if (found == peers_.end() || found->second.stage != Stage::stranger) return false;
    found->second.stage = Stage::greeted;
    strangers_.remove(connection);
    greeted_.add(connection, found->second.came);
    return true;
}

void Connections::accept(Id connection) {
    auto found = peers_.find(connection);
    if (found == peers_.end() || found->second.stage == Stage::accepted) return;
    keep_alive(found->second.socket.get());
    found->second.stage = Stage::accepted;
    ++accepted_;
    strangers_.remove(connection);
    greeted_.remove(connection);
    if (!found->second.in.empty()) resumed_.push_back(connection);
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
    Peer& peer = found->second;
    if (peer.stage == Stage::accepted) --accepted_;
    greeted_.remove(connection);
    strangers_.remove(connection);
    if (!peer.is_writing) {
        peers_.erase(found);
        return;
    }
    peer.is_closing = true;
    peer.stage = Stage::stranger;
    strangers_.add(connection, Clock::now());
}

void Connections::end(Id id) {
    auto found = peers_.find(id);
    if (found == peers_.end()) return;
    if (found->second.stage == Stage::accepted) --accepted_;
    if (found->second.stage != Stage::stranger) ended_.push_back(id);
    strangers_.remove(id);
    greeted_.remove(id);
    peers_.erase(found);
}

}  // namespace berth::pull::nodes
