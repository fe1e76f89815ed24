#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/peer/tracker_client.hh"
#include "runtime/pull/nodes/protocol/session.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/unit/pull_share_tracker.hh"
#include "tests/unit/pull_tracker_process.hh"

using namespace berth;
using namespace berth::pull;
using namespace berth::pull::nodes;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

Hello hello_of(const TrackerClient& client, unsigned rank) {
    return {{cat("n", rank), client.own_address(), 4000, key_of(rank)}, rank, image_a, release};
}

/// The next message, which is of this kind.
template <typename Kind>
Kind next(TrackerClient& client) {
    auto message = client.receive(seconds(8) * fixtures::slowness());
    REQUIRE(message);
    INFO(words_of(*message).substr(0, 200));
    auto out = as<Kind>(*message);
    REQUIRE(out);
    return *out;
}

void send_text(const Fd& socket, const std::string& text) {
    REQUIRE(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

/// What comes until the other end closes.
std::string text_until_end(const Fd& socket) {
    std::string out;
    char buffer[4096];
    for (ssize_t got; (got = ::recv(socket.get(), buffer, sizeof buffer, 0)) > 0;)
        out.append(buffer, static_cast<size_t>(got));
    return out;
}

}  // namespace

TEST_CASE("share: two nodes and srun's process bring an image together", "[share]") {
    TrackerProcess server(2);
    TrackerClient one(server.place("n0", 0)), two(server.place("n1", 1));
    CHECK(one.own_address() == "127.0.0.1");
    one.send(hello_of(one, 0));
    next<Fetch>(one);
    two.send(hello_of(two, 1));
    one.send(Documents{{{image_a, "a/b", std::string(100'000, 'x')}}});
    CHECK(next<Documents>(two).documents.at(0).bytes.size() == 100'000);
    for (TrackerClient* client : {&one, &two}) client->send(Have{{mega}, {false}});
    bool one_owns = next<Plan>(one).layers.at(0).is_owner, two_owns = next<Plan>(two).layers.at(0).is_owner;
    CHECK(one_owns != two_owns);
    TrackerClient &owner = one_owns ? one : two, &other = one_owns ? two : one;
    owner.send(Done{0, LayerSum{9, chunks_one}});
    CHECK(next<Complete>(other).chunks == chunks_one);
    owner.send(Finished{});
    CHECK_FALSE(other.receive(milliseconds(50)));
    other.send(Finished{});
    next<Finished>(one);
    next<Finished>(two);
}

TEST_CASE("share: a node that goes is lost at once", "[share]") {
    TrackerProcess server(2);
    auto one = std::make_unique<TrackerClient>(server.place("n0", 0));
    TrackerClient two(server.place("n1", 1));
    one->send(hello_of(*one, 0));
    next<Fetch>(*one);
    two.send(hello_of(two, 1));
    CHECK_FALSE(two.receive(milliseconds(50)));
    one.reset();
    next<Fetch>(two);
}

TEST_CASE("share: who does not know the secret, or breaks off, is not heard and disturbs nobody", "[share]") {
    TrackerProcess server(2);
    MeetingPlace wrong = server.place("n0");
    wrong.secret = "guessed";
    CHECK_THROWS_WITH(TrackerClient(wrong), Catch::Contains("sharing the image with the step's other nodes: srun at "
                                                            "127.0.0.1 port ") &&
                                                Catch::Contains("the connection has ended"));
    CHECK_THROWS_WITH(TrackerClient({"127.0.0.1", "1", "s", "n1", 0}), Catch::Contains("Connection refused"));
    for (const std::string& text : {std::string("berth-share-1 00 00\n"), std::string("\n"), std::string(5000, 'x')}) {
        Fd stranger = server.stranger();
        send_text(stranger, text);
        CHECK(text_until_end(stranger).empty());
    }
    // One who knows it, but says what is no message.
    Session session(Sender::node, server.secret, "nonce");
    Fd odd = server.stranger();
    send_text(odd, session.greeting() + "\n");
    char buffer[4096];
    ssize_t got = ::recv(odd.get(), buffer, sizeof buffer, 0);
    REQUIRE(got > 1);
    REQUIRE(session.take_greeting(std::string_view(buffer, static_cast<size_t>(got) - 1)));
    send_text(odd, session.wrap("nonsense") + "\n");
    CHECK(text_until_end(odd).empty());
    TrackerClient node(server.place("n1", 1));
    node.send(hello_of(node, 1));
    next<Fetch>(node);
}

TEST_CASE("share: a greeting that was heard and is said again makes nobody a node of the step", "[share]") {
    TrackerProcess server(2);
    Session honest(Sender::node, server.secret, "nonce");
    Fd replay = server.stranger();
    send_text(replay, honest.greeting() + "\n");
    char buffer[4096];
    REQUIRE(::recv(replay.get(), buffer, sizeof buffer, 0) > 1);
    // More than anybody may say who has not shown the secret. (The receiving end waits no longer than this.)
    timeval patience{30, 0};
    ::setsockopt(replay.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    send_text(replay, std::string(8000, 'x'));
    errno = 0;
    CHECK(::recv(replay.get(), buffer, sizeof buffer, 0) <= 0);
    CHECK(errno != EAGAIN);
    TrackerClient node(server.place("n1", 1));
    node.send(hello_of(node, 1));
    next<Fetch>(node);
}

TEST_CASE("share: two thousand strangers who say nothing keep no node from being heard", "[share]") {
    rlimit files{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
    rlimit raised = files;
    raised.rlim_cur = raised.rlim_max;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &raised) == 0);
    {
        TrackerProcess server(2);
        std::vector<Fd> strangers;
        for (int i = 0; i < 2000; ++i) strangers.push_back(server.stranger());
        for (const Fd& stranger : strangers) send_text(stranger, "b");
        TrackerClient node(server.place("n1", 1));
        node.send(hello_of(node, 1));
        next<Fetch>(node);
    }
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
}

TEST_CASE("share: a node of another release is told so", "[share][release]") {
    TrackerProcess server(2);
    Fd other = server.stranger();
    std::string words = "berth-share-9 nonce what ever";
    send_text(other, cat(words, ' ', oci::hmac_sha256(server.secret, words + "\nnode"), '\n'));
    Session node(Sender::node, server.secret, "nonce");
    std::string answer = text_until_end(other);
    REQUIRE(answer.ends_with('\n'));
    answer.pop_back();
    CHECK_THROWS_WITH(node.take_greeting(answer), Catch::Contains("of another release"));
}

TEST_CASE("share: the same process tells nodes what a tag means", "[share]") {
    TrackerProcess server(2);
    TrackerClient sharing(server.place("n0", 0));
    sharing.send(hello_of(sharing, 0));
    next<Fetch>(sharing);
    CHECK(agree(server.place("n1"), image_a, "image x").digest == image_a);
    CHECK(agree(server.place("n2"), image_b, "image x").digest == image_a);
    // It has gone on.
    sharing.send(Documents{{{image_a, "", "{}"}}});
    sharing.send(Have{{1}, {false}});
    CHECK(next<Plan>(sharing).layers.at(0).is_owner);
}

TEST_CASE("share: a node that does not read keeps nobody waiting", "[share]") {
    TrackerProcess server(3);
    TrackerClient one(server.place("n0", 0)), deaf(server.place("n1", 1)), two(server.place("n2", 2));
    one.send(hello_of(one, 0));
    next<Fetch>(one);
    deaf.send(hello_of(deaf, 1));
    two.send(hello_of(two, 2));
    one.send(Documents{{{image_a, "", std::string(8 << 20, 'x')}}});
    auto began = std::chrono::steady_clock::now();
    CHECK(next<Documents>(two).documents.at(0).bytes.size() == 8 << 20);
    CHECK(std::chrono::steady_clock::now() - began < seconds(5) * fixtures::slowness());
    CHECK(agree(server.place("n2"), image_a, "image x").digest == image_a);
}

TEST_CASE("share: a conversation that is shut down ends for the one who waits", "[share]") {
    TrackerProcess server(2);
    TrackerClient client(server.place("n0", 0));
    std::thread closer([&] {
        std::this_thread::sleep_for(milliseconds(100));
        client.shut_down();
    });
    CHECK_THROWS_AS(client.receive(seconds(8)), Error);
    closer.join();
}

TEST_CASE("share: two thousand nodes at once, of which each is known within seconds", "[share]") {
    rlimit files{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
    rlimit raised = files;
    raised.rlim_cur = raised.rlim_max;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &raised) == 0);
    {
        TrackerProcess server(2000);
        auto began = std::chrono::steady_clock::now();
        std::vector<std::unique_ptr<TrackerClient>> nodes;
        for (unsigned rank = 0; rank < 2000; ++rank) {
            nodes.push_back(std::make_unique<TrackerClient>(server.place(cat("n", rank), rank)));
            nodes.back()->send(hello_of(*nodes.back(), rank));
        }
        next<Fetch>(*nodes[0]);
        nodes[0]->send(Documents{{{image_a, "", "{}"}}});
        for (auto& node : nodes) {
            if (node != nodes[0]) next<Documents>(*node);
            node->send(Have{{mega, mega}, {false, false}});
        }
        for (auto& node : nodes) CHECK(next<Plan>(*node).layers.size() == 2);
        CHECK(std::chrono::steady_clock::now() - began < seconds(30) * fixtures::slowness());
    }
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
}
