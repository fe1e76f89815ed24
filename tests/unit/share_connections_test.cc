// Who connects to srun's tracker or to a node, before anybody knows whether it is of the step.
#include "runtime/pull/nodes/tracker/connections.hh"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "runtime/base/text.hh"
#include "runtime/host/tcp_port.hh"
#include "runtime/pull/nodes/peer/acceptor.hh"
#include "runtime/pull/nodes/protocol/newcomers.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::pull::nodes;
using std::chrono::milliseconds;

namespace {

Fd listening_socket() {
    Fd out = listen_at(0, "127.0.0.1");
    REQUIRE(::fcntl(out.get(), F_SETFL, O_NONBLOCK) == 0);
    return out;
}

struct Tracker {
    Fd listening = listening_socket();
    uint16_t port = port_of(listening.get());
    Connections connections{std::move(listening)};

    Fd connect(const std::string& said = "") const {
        Fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        say(out, said);
        return out;
    }
    static void say(const Fd& socket, const std::string& text) {
        (void)::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    }
    /// What is told until it is so much, as "ID LINE;"; a line of none is an end.
    std::string told(size_t lines) {
        std::string out;
        for (int tries = 0; tries < 400 && lines > 0; ++tries)
            for (const Connections::Arrived& arrived : connections.wait(milliseconds(50))) {
                out += cat(arrived.from, ' ', arrived.line.value_or("(end)"), ';');
                lines -= std::min<size_t>(lines, 1);
            }
        return out;
    }
    /// After some turns in which nothing was told.
    bool is_quiet() {
        for (int turn = 0; turn < 6; ++turn)
            if (!connections.wait(milliseconds(20)).empty()) return false;
        return true;
    }
};

/// The other end has closed it.
bool has_ended(const Fd& socket) {
    timeval patience{20, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, 0) <= 0;
}

}  // namespace

TEST_CASE("newcomers: the oldest goes when there are too many, and each in its time", "[share]") {
    Newcomers newcomers(3, milliseconds(100));
    Newcomers::Time start{};
    for (Newcomers::Id id : {1, 2, 3}) newcomers.add(id, start + milliseconds(10 * id));
    CHECK(newcomers.take_overdue(start + milliseconds(50)).empty());
    newcomers.add(4, start + milliseconds(40));
    CHECK(newcomers.take_overdue(start + milliseconds(50)) == std::vector<Newcomers::Id>{1});
    newcomers.remove(2);
    newcomers.remove(99);
    CHECK(newcomers.take_overdue(start + milliseconds(130)) == std::vector<Newcomers::Id>{3});
    CHECK(newcomers.take_oldest() == std::vector<Newcomers::Id>{4});
    CHECK((newcomers.is_empty() && newcomers.take_oldest().empty()));
}

TEST_CASE("connections: of a stranger the first line is looked at, and nothing behind it", "[share]") {
    Tracker tracker;
    Fd many = tracker.connect("one\ntwo\nthree\n");
    CHECK(tracker.is_quiet());
    CHECK(has_ended(many));
    Fd one = tracker.connect("one\n");
    CHECK(tracker.told(1) == "2 one;");
    tracker.connections.close(2);
    CHECK(has_ended(one));
    Fd endless = tracker.connect(std::string(5000, 'x'));
    CHECK(tracker.is_quiet());
    CHECK(has_ended(endless));
}

TEST_CASE("connections: who was greeted says one short line before it is of the step, and then any", "[share]") {
    Tracker tracker;
    Fd node = tracker.connect("greeting\n");
    REQUIRE(tracker.told(1) == "1 greeting;");
    REQUIRE(tracker.connections.greet(1));
    CHECK_FALSE(tracker.connections.greet(1));
    Tracker::say(node, "first\nsecond\nthird\n");
    CHECK(tracker.told(1) == "1 first;");
    CHECK(tracker.connections.accepted() == 0);
    tracker.connections.accept(1);
    CHECK(tracker.told(2) == "1 second;1 third;");
    Tracker::say(node, std::string(100'000, 'y') + "\n");
    CHECK(tracker.told(1).size() > 100'000);
    // One that repeats what it has heard does not get so far.
    Fd replay = tracker.connect("greeting\n");
    REQUIRE(tracker.told(1) == "2 greeting;");
    REQUIRE(tracker.connections.greet(2));
    Tracker::say(replay, std::string(5000, 'y'));
    CHECK(tracker.told(1) == "2 (end);");
    CHECK(has_ended(replay));
}

TEST_CASE("share port: only the whole first message of TLS begins a connection", "[share]") {
    std::string begun("\x16\x03\x01\x00\x05", 5);
    CHECK(has_begun("") == Begun::not_yet);
    CHECK(has_begun("G") == Begun::no);
    CHECK(has_begun("\x16\x02") == Begun::no);
    for (size_t size = 1; size < begun.size() + 5; ++size)
        CHECK(has_begun((begun + "abcde").substr(0, size)) == Begun::not_yet);
    CHECK(has_begun(begun + "abcde") == Begun::yes);
    CHECK(has_begun(begun + "abcdefgh") == Begun::yes);
    CHECK(has_begun("\x16\x03\x01\xff\xff") == Begun::no);
}
