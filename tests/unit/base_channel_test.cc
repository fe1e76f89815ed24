#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "tests/catch.hh"

using namespace berth;

namespace {

Message sample() {
    Message out;
    out.type = 7;
    out.add("name", "value");
    out.add("env", "A=1");
    out.add("env", std::string("B=\0\n=", 5));
    out.add("", "");
    return out;
}

Message round_trip(const Message& message) {
    Assembler assembler;
    std::vector<std::string> packets = packets_of(message);
    for (size_t i = 0; i < packets.size(); ++i) {
        CHECK(packets[i].size() <= packet_limit);
        CHECK(assembler.add(packets[i]) == (i + 1 == packets.size()));
    }
    return assembler.take();
}

void patch(std::string& packet, size_t offset, auto value) {
    std::memcpy(packet.data() + offset, &value, sizeof value);
}

}  // namespace

TEST_CASE("channel: records survive byte for byte, repeated keys in order", "[channel]") {
    Message out = round_trip(sample());
    CHECK(out.type == 7);
    CHECK(out.records == sample().records);
    CHECK(out.all("env") == std::vector<std::string>{"A=1", std::string("B=\0\n=", 5)});
    CHECK(out.value("name") == "value");
    CHECK_FALSE(out.find("nothing"));
    CHECK_THROWS_AS(out.value("nothing"), Error);
    CHECK(round_trip(Message{3, {}}).records.empty());
}

TEST_CASE("channel: numbers are checked", "[channel]") {
    Message message;
    message.add("good", "42");
    message.add("bad", "42x");
    CHECK(message.number("good", 42) == 42);
    CHECK_THROWS_AS(message.number("good", 41), Error);
    CHECK_THROWS_AS(message.number("bad", 100), Error);
}

TEST_CASE("channel: bodies around the packet size", "[channel]") {
    for (size_t size : {packet_limit - 25, packet_limit - 24, packet_limit - 23, 2 * packet_limit, size_t{3'000'000}}) {
        Message message;
        message.add("k", std::string(size, 'x'));
        CHECK(round_trip(message).value("k").size() == size);
    }
}

TEST_CASE("channel: malformed packets are refused", "[channel]") {
    std::string good = packets_of(sample())[0];
    Assembler assembler;
    SECTION("cut header") {
        CHECK_THROWS_AS(assembler.add(good.substr(0, 15)), Error);
    }
    SECTION("magic") {
        patch(good, 0, uint32_t{0});
        CHECK_THROWS_AS(assembler.add(good), Error);
    }
    SECTION("length over the limit") {
        patch(good, 8, uint64_t{message_limit} + 1);
        CHECK_THROWS_AS(assembler.add(good), Error);
    }
    SECTION("length near 2^64") {
        patch(good, 8, ~uint64_t{0});
        CHECK_THROWS_AS(assembler.add(good), Error);
    }
    SECTION("more bytes than the length") {
        patch(good, 8, uint64_t{3});
        CHECK_THROWS_AS(assembler.add(good), Error);
    }
    SECTION("a record longer than its message") {
        patch(good, 16, uint32_t{0xFFFFFFFF});
        CHECK(assembler.add(good));
        CHECK_THROWS_AS(assembler.take(), Error);
    }
    SECTION("both lengths near 2^32") {
        patch(good, 16, uint32_t{0xFFFFFFFF});
        patch(good, 20, uint32_t{0xFFFFFFFF});
        CHECK(assembler.add(good));
        CHECK_THROWS_AS(assembler.take(), Error);
    }
    SECTION("half a record at the end") {
        patch(good, 8, uint64_t{4});
        CHECK(assembler.add(good.substr(0, 20)));
        CHECK_THROWS_AS(assembler.take(), Error);
    }
    SECTION("an empty packet in the middle") {
        patch(good, 8, uint64_t{1000});
        CHECK_FALSE(assembler.add(good));
        CHECK_THROWS_AS(assembler.add(""), Error);
    }
}

TEST_CASE("channel: a message of another version has the same form, and says its version", "[channel][release]") {
    Message message = sample();
    CHECK(round_trip(message).version == channel_version);
    message.version = 9;
    Message read = round_trip(message);
    CHECK(read.version == 9);
    CHECK(read.records == message.records);
    // What stands in the first packet is fixed for ever: magic, version, type, length.
    const std::string header("BRTH\x09\0\x07\0", 8);
    CHECK(packets_of(message)[0].substr(0, 8) == header);
}

TEST_CASE("channel: a message over the limit is not sent", "[channel]") {
    Message message;
    message.add("k", std::string(message_limit, 'x'));
    CHECK_THROWS_AS(packets_of(message), Error);
}

TEST_CASE("channel: hostile row 57, 58: an environment of 1 MiB and strings with newlines pass a socket", "[channel]") {
    auto [a, b] = make_channel();
    Message message;
    for (int i = 0; i < 1024; ++i) message.add("env", "V" + std::to_string(i) + "=" + std::string(1024, '\n'));
    std::thread sender([&, socket = a.get()] { send_message(socket, message); });
    auto received = receive_message(b.get());
    sender.join();
    REQUIRE(received);
    CHECK(received->message.records == message.records);
}

TEST_CASE("channel: descriptors arrive once, close-on-exec", "[channel]") {
    auto [a, b] = make_channel();
    auto [c, d] = make_channel();
    Message long_one;
    long_one.add("k", std::string(150'000, 'x'));
    send_message(a.get(), long_one, {c.get(), d.get()});
    send_message(a.get(), sample());
    auto first = receive_message(b.get());
    REQUIRE(first);
    REQUIRE(first->descriptors.size() == 2);
    CHECK((fcntl(first->descriptors[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
    send_message(first->descriptors[0].get(), sample());
    CHECK(receive_message(d.get()));
    auto second = receive_message(b.get());
    REQUIRE(second);
    CHECK(second->descriptors.empty());
}

TEST_CASE("channel: too many descriptors are refused on both ends", "[channel]") {
    auto [a, b] = make_channel();
    std::vector<int> nine(9, a.get());
    CHECK_THROWS_AS(send_message(a.get(), sample(), nine), Error);

    std::string packet = packets_of(sample())[0];
    char control[CMSG_SPACE(9 * sizeof(int))] = {};
    iovec part{packet.data(), packet.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(9 * sizeof(int));
    std::memcpy(CMSG_DATA(rights), nine.data(), 9 * sizeof(int));
    REQUIRE(sendmsg(a.get(), &header, 0) > 0);
    CHECK_THROWS_AS(receive_message(b.get()), Error);
}

TEST_CASE("channel: a receiver with limits takes no more than they allow", "[channel]") {
    auto [a, b] = make_channel();
    Inbox inbox({1024, 1024, 2, 0});
    Message message;
    message.add("text", "x");
    SECTION("within them") {
        message.add("", std::string(900, 'x'));
        send_message(a.get(), message);
        CHECK(inbox.read(b.get()) == Inbox::Status::message);
        CHECK(inbox.take().message.records == message.records);
    }
    SECTION("records") {
        for (int i = 0; i < 2; ++i) message.add("", "");
        send_message(a.get(), message);
        REQUIRE(inbox.read(b.get()) == Inbox::Status::message);
        CHECK_THROWS_WITH(inbox.take(), Catch::Contains("more than 2 records"));
    }
    SECTION("bytes of a packet") {
        message.add("", std::string(1024, 'x'));
        send_message(a.get(), message);
        CHECK_THROWS_WITH(inbox.read(b.get()), Catch::Contains("a packet is too long"));
    }
    SECTION("bytes of a message") {
        std::string first = packets_of(message)[0];
        uint64_t length = 1025;
        std::memcpy(first.data() + 8, &length, sizeof length);
        REQUIRE(::send(a.get(), first.data(), first.size(), 0) > 0);
        CHECK_THROWS_WITH(inbox.read(b.get()), Catch::Contains("it is too long"));
    }
    SECTION("descriptors, of which none is left open") {
        int next = ::dup(0);
        ::close(next);
        send_message(a.get(), message, {0});
        CHECK_THROWS_WITH(inbox.read(b.get()), Catch::Contains("too many descriptors"));
        CHECK(Fd(::dup(0)).get() == next);
    }
    SECTION("more descriptors than one") {
        Inbox one({1024, 1024, 2, 1});
        send_message(a.get(), message, {0, 0});
        CHECK_THROWS_WITH(one.read(b.get()), Catch::Contains("too many descriptors"));
    }
}

TEST_CASE("channel: the end of the connection and a deadline", "[channel]") {
    auto [a, b] = make_channel();
    CHECK_THROWS_AS(receive_message(b.get(), 10), SysError);
    Inbox inbox;
    CHECK(inbox.read(b.get()) == Inbox::Status::nothing);
    a.reset();
    CHECK(inbox.read(b.get()) == Inbox::Status::closed);
    CHECK_FALSE(receive_message(b.get()));
    CHECK_THROWS_AS(send_message(b.get(), sample()), SysError);
}

TEST_CASE("channel: a peer that does not read holds nobody longer than the deadline", "[channel]") {
    auto [a, b] = make_channel();
    Message message;
    message.add("k", std::string(8'000'000, 'x'));
    CHECK_THROWS_WITH(send_message(a.get(), message, {}, 50), Catch::Contains("timed out"));
    Outbox outbox;
    outbox.push(message);
    CHECK_FALSE(outbox.flush(a.get()));
    CHECK_FALSE(outbox.empty());
}
