// A server of layers and its receivers in one process, over real TLS on loopback.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/tcp_port.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/peer/chunk_server.hh"
#include "runtime/pull/nodes/peer/receive.hh"
#include "runtime/pull/nodes/protocol/newcomers.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::pull::nodes;
using fixtures::TempFolder;
using std::chrono::milliseconds;

namespace {

const std::string token = client_token("the step's secret");

Digest layer_digest() { return oci::sha256_of("a layer"); }

std::string content_of(int file) {
    std::string out(static_cast<size_t>(sys::stat_of(file, "a file").st_size), 0);
    REQUIRE(sys::pread_exact(file, out, 0, "a file"));
    return out;
}

/// A node that serves one layer.
struct Node {
    explicit Node(const std::string& its_token = token)
        : identity(make_identity()),
          layer(std::make_shared<GrowingLayer>(layer_digest())),
          server({.identity = identity, .token = its_token}) {
        server.offer(layer);
    }
    SourcePeer peer(unsigned place = 0) const { return {place, {"node", "127.0.0.1", server.port(), identity.pin}}; }

    Identity identity;
    std::shared_ptr<GrowingLayer> layer;
    ChunkServer server;
};

/// A node that has a whole file from the start.
void fill(Node& node, const TempFolder& folder, const std::string& name, const std::string& content) {
    Fd file = folder.create(name);
    sys::write_all(file.get(), content, "a layer");
    ChunkPump pump(*node.layer, std::move(file), "a layer");
    pump.finish();
}

struct Receiver {
    explicit Receiver(const TempFolder& folder, const std::string& name = "received") : file(folder.create(name)) {
        settings.token = token;
        settings.complain = [this](const SourcePeer& source, Fault, const std::string& reason) {
            std::lock_guard lock(mutex);
            complaints.push_back(cat(source.place, ": ", reason));
        };
        settings.received = [this](uint64_t bytes) { received += bytes; };
        settings.behind = [this](unsigned, uint64_t bytes) {
            if (bytes > behind) behind = bytes;
        };
        settings.is_over = [this] { return is_over.load(); };
    }
    void receive(std::vector<SourcePeer> peers) {
        sources.set({peers, peers});
        receive_layer(layer, file.get(), sources, settings);
    }

    Fd file;
    GrowingLayer layer{layer_digest()};
    SourceList sources;
    ReceiveSettings settings;
    std::mutex mutex;
    std::vector<std::string> complaints;
    std::atomic<uint64_t> received = 0, behind = 0;  ///< the most it has been
    std::atomic<bool> is_over = false;
};

/// Passes connections on to a port of this machine, and of some only so many bytes.
class Relay {
  public:
    struct Limit {
        size_t bytes = SIZE_MAX;  ///< that come from the port
        bool closes = false;      ///< then; else the connection stands still
    };
    /// `limit_of`: by the number of the connection, from 0.
    Relay(uint16_t to, std::function<Limit(unsigned)> limit_of)
        : listening_(listen_at(0)), to_(to), limit_of_(std::move(limit_of)), thread_([this] { accept_all(); }) {}
    ~Relay() {
        is_ended_ = true;
        thread_.join();
    }
    uint16_t port() const {
        sockaddr_in6 address{};
        socklen_t size = sizeof address;
        REQUIRE(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
        return ntohs(address.sin6_port);
    }
    unsigned connections() const { return connections_; }
    /// That came from the port, over all connections.
    size_t bytes() const { return bytes_; }

  private:
    void accept_all() {
        std::vector<std::jthread> passing;
        while (!is_ended_) {
            pollfd wait{listening_.get(), POLLIN, 0};
            if (::poll(&wait, 1, 50) <= 0) continue;
            int client = ::accept(listening_.get(), nullptr, nullptr);
            passing.emplace_back([this, client, limit = limit_of_(connections_++)] { pass(Fd(client), limit); });
        }
    }
    Fd connected() const {
        Fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(to_);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return ::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? std::move(out) : Fd();
    }
    void pass(Fd client, Limit limit) {
        Fd server = connected();
        char buffer[16 << 10];
        for (size_t passed = 0; !is_ended_ && !(limit.closes && passed >= limit.bytes);) {
            // What stands still is looked at for its end alone.
            short wanted = passed < limit.bytes ? POLLIN : POLLRDHUP;
            pollfd ends[2] = {{client.get(), wanted, 0}, {server.get(), wanted, 0}};
            if (::poll(ends, 2, 50) <= 0) continue;
            for (int from : {0, 1}) {
                if (ends[from].revents == 0) continue;
                ssize_t got = wanted == POLLIN ? ::recv(ends[from].fd, buffer, sizeof buffer, 0) : 0;
                if (got <= 0) return;
                auto size = static_cast<size_t>(got);
                if (::send(ends[1 - from].fd, buffer, size, MSG_NOSIGNAL) != got) return;
                if (from == 1) passed += size, bytes_ += size;
            }
        }
    }

    Fd listening_;
    uint16_t to_;
    std::function<Limit(unsigned)> limit_of_;
    std::atomic<bool> is_ended_ = false;
    std::atomic<unsigned> connections_ = 0;
    std::atomic<size_t> bytes_ = 0;
    std::thread thread_;
};

void seal_like(GrowingLayer& layer, const GrowingLayer& owner) {
    layer.complete(*owner.sum());
}

}  // namespace

TEST_CASE("a layer comes from another node as it is there", "[share]") {
    TempFolder folder;
    Node node;
    std::string content = squash::test::noise(GENERATE(size_t{1000}, size_t{2'500'000}, size_t{9 << 20}), 3);
    fill(node, folder, "served", content);
    Receiver receiver(folder);
    seal_like(receiver.layer, *node.layer);
    receiver.receive({node.peer()});
    CHECK((content_of(receiver.file.get()) == content));
    CHECK(receiver.received == content.size());
    CHECK(receiver.complaints.empty());
}

TEST_CASE("a layer goes on to the next node while it comes, before anybody has all of it", "[share]") {
    TempFolder folder;
    Node owner, middle;
    std::string content = squash::test::noise(10 << 20, 4);
    Fd file = folder.create("served");
    auto pump = std::make_unique<ChunkPump>(*owner.layer, descriptor_of(file.get(), "a layer"), "a layer");
    Receiver first(folder, "first"), last(folder, "last");
    std::thread to_first([&] {
        first.sources.set({std::vector{owner.peer()}, std::vector{owner.peer()}});
        receive_layer(*middle.layer, first.file.get(), first.sources, first.settings);
    });
    std::thread to_last([&] { last.receive({middle.peer()}); });
    sys::write_all(file.get(), content.substr(0, 6 << 20), "a layer");
    pump->note(6 << 20);
    // Chunks 1 to 5; two of them are even.
    while (last.layer.count(0) < 2 || last.layer.count(1) < 3) std::this_thread::sleep_for(milliseconds(5));
    CHECK_FALSE(owner.layer->sum());
    sys::write_all(file.get(), content.substr(6 << 20), "a layer");
    pump->finish();
    for (GrowingLayer* layer : {middle.layer.get(), &last.layer}) seal_like(*layer, *owner.layer);
    to_first.join();
    to_last.join();
    CHECK((content_of(last.file.get()) == content));
}

TEST_CASE("a source that is gone, knows no such layer, takes no such token or has another key is passed over",
          "[share]") {
    TempFolder folder;
    Node good, other_token("another step's"), without, other_key;
    without.layer->give_up();
    std::string content = squash::test::noise(3 << 20, 6);
    fill(good, folder, "served", content);
    fill(other_token, folder, "served too", content);
    fill(other_key, folder, "served as well", content);
    SourcePeer closed{0, {"node", "127.0.0.1", 1, good.identity.pin}};
    SourcePeer stranger = other_key.peer(3);
    stranger.peer.key = good.identity.pin;
    Receiver receiver(folder);
    seal_like(receiver.layer, *good.layer);
    receiver.receive({closed, other_token.peer(1), without.peer(2), stranger, good.peer(4)});
    CHECK((content_of(receiver.file.get()) == content));
    for (const char* place : {"0: ", "1: ", "3: "})
        CHECK(std::any_of(receiver.complaints.begin(), receiver.complaints.end(),
                          [&](const std::string& line) { return line.starts_with(place); }));
    // One that will not get the layer has told the tracker so itself, and is as good as before for other layers.
    for (const char* place : {"2: ", "4: "})
        CHECK(std::none_of(receiver.complaints.begin(), receiver.complaints.end(),
                           [&](const std::string& line) { return line.starts_with(place); }));
}

TEST_CASE("a source whose connection stands still is asked again, and nobody complains of it", "[share]") {
    TempFolder folder;
    Node good;
    std::string content = squash::test::noise(3 << 20, 6);
    fill(good, folder, "served", content);
    // As where a link loses every packet of one connection.
    Relay relay(good.server.port(), [](unsigned number) { return Relay::Limit{number < 2 ? 1 << 20 : SIZE_MAX}; });
    Receiver receiver(folder);
    seal_like(receiver.layer, *good.layer);
    SourcePeer source = good.peer();
    source.peer.port = relay.port();
    receiver.receive({source});
    CHECK((content_of(receiver.file.get()) == content));
    CHECK(receiver.complaints.empty());
    CHECK(relay.connections() == 4);
}

TEST_CASE("a source that ends while it sends is complained of, and the next one goes on", "[share]") {
    TempFolder folder;
    Node good;
    std::string content = squash::test::noise(3 << 20, 6);
    fill(good, folder, "served", content);
    auto limit_of = [](unsigned number) { return Relay::Limit{number < 2 ? size_t{1 << 20} : 0, true}; };
    Relay relay(good.server.port(), limit_of);
    Receiver receiver(folder);
    seal_like(receiver.layer, *good.layer);
    SourcePeer source = good.peer();
    source.peer.port = relay.port();
    receiver.receive({source, good.peer(1)});
    CHECK((content_of(receiver.file.get()) == content));
    CHECK_FALSE(receiver.complaints.empty());
    CHECK(std::ranges::all_of(receiver.complaints, [](const std::string& line) { return line.starts_with("0: "); }));
}

TEST_CASE("wrong bytes are known at once, and come from another source", "[share]") {
    TempFolder folder;
    Node bad, good;
    std::string content = squash::test::noise(6 << 20, 7);
    fill(good, folder, "good", content);
    fill(bad, folder, "bad", content);
    // Its disk has changed them since.
    Fd file = sys::open_file(folder / "bad", 2);
    REQUIRE(::pwrite(file.get(), "x", 1, (3 << 20) + 5) == 1);
    Receiver receiver(folder);
    seal_like(receiver.layer, *good.layer);
    receiver.receive({bad.peer(0), good.peer(1)});
    CHECK((content_of(receiver.file.get()) == content));
    REQUIRE(receiver.complaints.size() == 1);
    CHECK(receiver.complaints[0] == "0: it sent wrong bytes");
}

TEST_CASE("a source that sends more than can be made of a layer fills no disk, sealed or not", "[share]") {
    TempFolder folder;
    Node endless;
    fill(endless, folder, "served", squash::test::noise(6 << 20, 14));
    Receiver receiver(folder);
    receiver.settings.limit = 1 << 20;
    receiver.settings.patience = milliseconds(300);
    bool is_sealed = GENERATE(false, true);
    if (is_sealed) seal_like(receiver.layer, *endless.layer);
    CHECK_THROWS_AS(receiver.receive({endless.peer()}), NotShared);
    CHECK(sys::stat_of(receiver.file.get(), "a file").st_size <= 1 << 20);
    std::string told = receiver.complaints.empty() ? "" : receiver.complaints.front();
    CHECK(told == (is_sealed ? "" : "0: it sends more than can be made of the layer"));
}

TEST_CASE("what is whole, but not what the owner has, is not the layer", "[share]") {
    TempFolder folder;
    Node node, owner;
    fill(node, folder, "served", squash::test::noise(3 << 20, 8));
    fill(owner, folder, "owner's", squash::test::noise(3 << 20, 9));
    Receiver receiver(folder);
    seal_like(receiver.layer, *owner.layer);
    CHECK_THROWS_AS(receiver.receive({node.peer()}), NotShared);
}

TEST_CASE("a slow source is left when the tracker names another one, and the node says how far behind it is",
          "[share]") {
    TempFolder folder;
    std::string content = squash::test::noise(12 << 20, 10);
    Node good;
    fill(good, folder, "good", content);
    Identity identity = make_identity();
    ChunkServer slow({.identity = identity, .token = token, .rate = 300'000});
    slow.offer(good.layer);
    Receiver receiver(folder);
    seal_like(receiver.layer, *good.layer);
    // What came from the old source has come, however long ago that one was chosen.
    receiver.settings.patience = milliseconds(500);
    std::thread tracker([&] {
        while (receiver.behind == 0) std::this_thread::sleep_for(milliseconds(10));
        std::this_thread::sleep_for(milliseconds(1000));
        receiver.sources.set({{{good.peer(1)}, {good.peer(1)}}});
    });
    receiver.receive({{0, {"slow", "127.0.0.1", slow.port(), identity.pin}}});
    tracker.join();
    CHECK(receiver.complaints.empty());
    CHECK(receiver.behind > 5 << 20);
    CHECK((content_of(receiver.file.get()) == content));
}

TEST_CASE("a source that had nothing is asked again after a while, and does not lose its receivers for good",
          "[share]") {
    TempFolder folder;
    std::string content = squash::test::noise(12 << 20, 12);
    Node near, far;
    fill(far, folder, "far", content);
    Identity identity = make_identity();
    ChunkServer slow({.identity = identity, .token = token, .rate = 300'000});
    slow.offer(far.layer);
    Relay relay(slow.port(), [](unsigned) { return Relay::Limit{}; });
    Receiver receiver(folder);
    seal_like(receiver.layer, *far.layer);
    receiver.settings.starving = receiver.settings.back = milliseconds(300);
    std::thread later([&] {
        while (receiver.received == 0) std::this_thread::sleep_for(milliseconds(10));
        fill(near, folder, "near", content);
    });
    receiver.receive({near.peer(), {1, {"far", "127.0.0.1", relay.port(), identity.pin}}});
    later.join();
    CHECK((content_of(receiver.file.get()) == content));
    CHECK(receiver.complaints.empty());
    // Else one stripe comes from there to its end, which is half of it.
    CHECK(relay.bytes() < content.size() / 4);
}

TEST_CASE("whatever sources say, a layer of which no chunk comes is left to the registry", "[share]") {
    TempFolder folder;
    bool is_gone = GENERATE(true, false);
    Node without;
    if (is_gone) without.layer->give_up();
    Receiver receiver(folder);
    receiver.settings.patience = milliseconds(700);
    receiver.settings.starving = milliseconds(100);
    std::atomic<unsigned> told = 0;
    receiver.settings.will_not_have = [&](const SourcePeer& source) {
        if (source.place == 4) ++told;
    };
    CHECK_THROWS_WITH(receiver.receive({without.peer(4)}), "no chunk of it comes");
    CHECK((told > 0) == is_gone);
    CHECK(receiver.complaints.empty());
}

namespace {

/// Connected, and no more.
Fd silent_connection(uint16_t port, const char* said = "", in_addr_t to = INADDR_LOOPBACK) {
    Fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(to);
    if (::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return Fd();
    if (*said != '\0') (void)::send(out.get(), said, std::strlen(said), MSG_NOSIGNAL);
    return out;
}

}  // namespace

TEST_CASE("strangers who connect and say nothing, or half of something, do not shut the port", "[share]") {
    TempFolder folder;
    Node node;
    std::string content = squash::test::noise(2 << 20, 15);
    fill(node, folder, "served", content);
    raise_file_limit();
    const char* said = GENERATE("", "\x16\x03\x01\x02", "GET / HTTP/1.1\r\n");
    std::vector<Fd> strangers;
    // More than the server had threads for.
    for (int i = 0; i < 700; ++i) strangers.push_back(silent_connection(node.server.port(), said));
    CHECK(std::ranges::all_of(strangers, [](const Fd& socket) { return bool(socket); }));
    Receiver receiver(folder);
    seal_like(receiver.layer, *node.layer);
    receiver.receive({node.peer()});
    CHECK((content_of(receiver.file.get()) == content));
    CHECK(receiver.complaints.empty());
}

TEST_CASE("where few files may be open, strangers leave the pull its own", "[share]") {
    auto [reading, writing] = sys::make_pipe();
    auto [until, end] = sys::make_pipe();
    std::fflush(stdout);
    pid_t server = fixtures::forked();
    if (server == 0) {
        int code = 1;
        try {
            rlimit few{256, 256};
            if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(2);
            Node node;
            uint16_t port = node.server.port();
            char byte = 0;
            if (::write(writing.get(), &port, sizeof port) != sizeof port || ::read(until.get(), &byte, 1) != 1)
                ::_exit(3);
            std::vector<Fd> own;
            for (int i = 0; i < 96; ++i) own.push_back(sys::open_file("/dev/null", O_RDONLY));
            code = 0;
        } catch (const std::exception&) {
        }
        ::_exit(code);
    }
    uint16_t port = 0;
    REQUIRE(::read(reading.get(), &port, sizeof port) == sizeof port);
    std::vector<Fd> strangers;
    for (int i = 0; i < 400; ++i) strangers.push_back(silent_connection(port, "\x16\x03\x01"));
    // Those that were taken before this one, too.
    std::this_thread::sleep_for(milliseconds(300));
    REQUIRE(::write(end.get(), "", 1) == 1);
    int status = 0;
    REQUIRE(::waitpid(server, &status, 0) == server);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("a node serves at the address of the site's network alone", "[share]") {
    Identity identity = make_identity();
    ChunkServer everywhere({.identity = identity, .token = token});
    ChunkServer there({.identity = identity, .token = token, .address = "127.0.0.1"});
    constexpr in_addr_t other = INADDR_LOOPBACK + 1;
    CHECK(silent_connection(everywhere.port(), "", other));
    CHECK(silent_connection(there.port()));
    CHECK_FALSE(silent_connection(there.port(), "", other));
}

TEST_CASE("a source that has told no key is passed over", "[share]") {
    TempFolder folder;
    std::string content = squash::test::noise(1 << 20, 11);
    Node good;
    fill(good, folder, "good", content);
    Receiver receiver(folder);
    seal_like(receiver.layer, *good.layer);
    receiver.receive({{0, {"other", "127.0.0.1", 1, ""}}, good.peer(1)});
    CHECK(receiver.complaints[0] == "0: it has told no key");
    CHECK((content_of(receiver.file.get()) == content));
}

TEST_CASE("receiving ends when the layer is not to be received any more", "[share]") {
    TempFolder folder;
    Node node;
    Receiver receiver(folder);
    std::thread later([&] {
        std::this_thread::sleep_for(milliseconds(300));
        receiver.is_over = true;
    });
    CHECK_THROWS_AS(receiver.receive({node.peer()}), NotShared);
    later.join();
}
