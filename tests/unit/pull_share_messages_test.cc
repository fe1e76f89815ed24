#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/protocol/messages.hh"
#include "runtime/pull/nodes/protocol/session.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::pull::nodes;

namespace {

const Digest one("sha256:" + std::string(64, '1')), two("sha256:" + std::string(64, '2'));
const std::string key = "sha256//" + oci::encode_base64(std::string(32, 'k'));
auto read_node = [](std::string_view words) { return read_message(words, Sender::node); };
auto read_tracker = [](std::string_view words) { return read_message(words, Sender::tracker); };
const Peer n1{"n1", "192.0.2.1", 4000, key}, n2{"n2", "2001:db8::2", 65535, key};

std::vector<Message> from_nodes() {
    return {Hello{n1, 7, one, release, 25'000},
            Hello{n2, 3, two, release, 0, true},
            Hello{n2, 0, two, 99},
            Documents{},
            Documents{{{one, "application/vnd.oci.image.index.v1+json", "{}\n"}, {two, "", std::string("\0\xff", 2)}}},
            Have{},
            Have{{0, UINT64_MAX, 3}, {true, false, true}},
            Done{4095, LayerSum{1ULL << 40, one}},
            Done{0},
            Alone{std::nullopt, "the registry: 401"},
            Alone{3, ""},
            Complaint{key, 2, Fault::wrong, "it sent wrong bytes"},
            Complaint{key, 0, Fault::silent, "it fell silent"},
            Complaint{key, 1, Fault::gone, ""},
            Progress{1, UINT64_MAX, 2, 3},
            Progress{1, 2, 3, 4, true, {{5, true}, {0, false}, {UINT32_MAX, true}}},
            Finished{}};
}

std::vector<Message> to_nodes() {
    LayerRole owner{true, {}}, taker{false, {{{0, 1}, {1}}}};
    return {Documents{},
            Documents{{{one, "a/b", "x"}}},
            Plan{},
            Plan{{}, {n1, n2}, {owner, taker, {}}},
            Plan{1, {n1, n2}},
            Plan{std::nullopt, {n1}},
            Done{1, LayerSum{2, two, "n1"}},
            Done{4095},
            NewRole{5, {n2}, {false, {{{0}, {}}}}},
            NewRole{0, {}, owner},
            Alone{std::nullopt, "nobody else"},
            Alone{9, ""},
            StepStatus{8, 3, 1, 2, 3, 4, "n7", 5, 6, true},
            StepStatus{},
            Finished{},
            Gone{0},
            Gone{UINT32_MAX}};
}

/// Lines of nodes that say nothing that this release takes.
std::vector<std::string> bad_lines() {
    std::string hello = words_of(Hello{n1, 7, one, release});
    return {"", " ", "hello", "nonsense", hello + " ", hello + " more", " " + hello, cat("hello  ", hello.substr(6)),
            hello.substr(0, hello.rfind(' ')), cat("hello n1 192.0.2.1 65536 ", key, " 0 ", one, " 1"),
            cat("hello n1 192.0.2.1 080 ", key, " 0 ", one, " 1"),
            cat("hello n/1 192.0.2.1 80 ", key, " 0 ", one, " 1"),
            cat("hello n1 192.0.2.1 80 sha256//AAAA 0 ", one, " 1"),
            cat("hello n1 192.0.2.1 80 ", key.substr(1), " 0 ", one, " 1"), "documents 1", "documents 9",
            cat("documents 1 ", one, " - "), cat("documents 1 ", one, " - QQ="), cat("documents 1 ", one, " - QR=="),
            cat("documents 1 ", one, " Cg== QQ=="), "documents 1 sha256:0 - -", "have 1 5", "have 1 5 2", "have 1 5 01",
            "have 2 5 01", "have 0", "have 0 0", "have 4097 -", cat("done 4096 1 ", one), "done 1 1",
            "done 1 1 1",
            cat("done -1 1 ", one), cat("done 1 1 ", one, " n1"), "done", "done x", "done 4096", "alone", "alone 1",
            "alone 1 Cg==", "progress 1 2", "progress 1 2 18446744073709551616", "finished 1", "plan - 0 0", "gone 1",
            "status 1 1 1 1 1 1 - 1 1 0"};
}

}  // namespace

TEST_CASE("share: the first message of the release before this one says so, without a link", "[share]") {
    std::string words = cat("hello n1 192.0.2.1 80 ", key, " 3 ", one, " 2");
    auto message = read_node(words);
    REQUIRE(message);
    const auto* hello = std::get_if<Hello>(&*message);
    REQUIRE(hello != nullptr);
    CHECK(hello->release == 2);
    CHECK(hello->link == 0);
    CHECK(words_of(*message) == words);
    CHECK_FALSE(read_node(words + " 25000"));
    // The one before this one has it, and whatever newer ones say behind it is not read.
    words = cat("hello n1 192.0.2.1 80 ", key, " 3 ", one);
    for (const std::string& rest :
         {std::string(" 4 25000"), cat(' ', release + 1), cat(' ', release + 1, " 1 lazy x")}) {
        auto other = read_node(words + rest);
        REQUIRE(other);
        CHECK(std::get<Hello>(*other).release != release);
    }
}

TEST_CASE("share: every message is what was written", "[share]") {
    for (const Message& message : from_nodes()) {
        std::string words = words_of(message);
        auto again = read_node(words);
        INFO(words);
        REQUIRE(again);
        CHECK(again->index() == message.index());
        CHECK(words_of(*again) == words);
    }
    for (const Message& message : to_nodes()) {
        std::string words = words_of(message);
        auto again = read_tracker(words);
        INFO(words);
        REQUIRE(again);
        CHECK(again->index() == message.index());
        CHECK(words_of(*again) == words);
    }
    auto plan = std::get<Plan>(*read_tracker(words_of(Plan{{}, {n1, n2}, {{true, {}}, {false, {{{0, 1}, {1}}}}}})));
    CHECK((plan.peers.size() == 2 && plan.peers[1].address == "2001:db8::2" && plan.peers[1].port == 65535));
    CHECK((plan.layers[0].is_owner && plan.layers[0].sources[0].empty()));
    CHECK((!plan.layers[1].is_owner && plan.layers[1].sources[0] == std::vector<unsigned>{0, 1}));
    auto have = std::get<Have>(*read_node("have 2 7 8 01"));
    CHECK((have.sizes == std::vector<uint64_t>{7, 8} && have.has == std::vector<bool>{false, true}));
}

TEST_CASE("share: what is no message is nothing", "[share]") {
    for (const std::string& line : bad_lines()) {
        INFO(line.substr(0, 200));
        CHECK_FALSE(read_node(line));
    }
    std::string peer = cat("n1 192.0.2.1 80 ", key);
    for (const std::string& line :
         {std::string("plan - 0"), std::string("plan - 1 0"), cat("plan - 1 ", peer, " 1 take 1 1 0"),
          cat("plan - 1 ", peer, " 1 take 1 0"), cat("plan - 1 ", peer, " 1 both 1 0 1 0"),
          cat("plan - 1 ", peer, " 1 take 2 0  0 0"), cat("plan - 1 ", peer, " 1 take 2 0 1 0"),
          cat("plan 1 1 ", peer, " 0"), std::string("plan - 0 1 take 1 0 0"), std::string("plan - 16777216 0"),
          std::string("role 0 0 own 0"), std::string("role 4096 0 own 0 0"), std::string("role 0 0 own 1 0 0"),
          std::string("alone 1"), std::string("hello"), std::string("have 0 -"), std::string("finished 1"),
          cat("done 1 2 ", one), std::string("status 1 1 1 1 1 1 - 1 1 2"),
          std::string("status 1 1 1 1 1 1 n/1 1 1 0")}) {
        INFO(line);
        CHECK_FALSE(read_tracker(line));
    }
    // The most sources that a stripe has, and one more.
    for (unsigned sources : {64U, 65U}) {
        std::string many = cat("plan - 1 ", peer, " 1 take ", sources);
        for (unsigned i = 0; i < sources; ++i) many += " 0";
        CHECK(read_tracker(many + " 0").has_value() == (sources == 64));
    }
    CHECK_FALSE(read_node("done 1" + std::string(line_limit, '0')));
}

TEST_CASE("share: a reason is one printable line of a limited length, whatever was thrown", "[share]") {
    std::string wild = "a\nb\x1b[31m\xff" + std::string(100'000, '\x01');
    auto again = read_node(words_of(Alone{1, wild}));
    REQUIRE(again);
    const std::string& reason = std::get<Alone>(*again).reason;
    CHECK(reason.starts_with("a\\x0ab\\x1b[31m\\xff"));
    CHECK(reason.size() <= reason_limit);
}

TEST_CASE("share: two ends that know the secret hear one another, in order", "[share]") {
    Session node(Sender::node, "s", "n-nonce"), tracker(Sender::tracker, "s", "t-nonce");
    CHECK(Session::is_greeting(node.greeting()));
    REQUIRE(tracker.take_greeting(node.greeting()));
    REQUIRE(node.take_greeting(tracker.greeting()));
    std::string first = node.wrap("one"), second = node.wrap("two");
    CHECK_FALSE(tracker.unwrap(second));
    CHECK(tracker.unwrap(first) == "one");
    CHECK_FALSE(tracker.unwrap(first));
    CHECK(tracker.unwrap(second) == "two");
    std::string back = tracker.wrap("one");
    CHECK_FALSE(tracker.unwrap(back));
    CHECK(node.unwrap(back) == "one");
}

TEST_CASE("share: nothing of another connection, direction or secret is heard", "[share]") {
    Session node(Sender::node, "s", "n"), tracker(Sender::tracker, "s", "t");
    Session again(Sender::tracker, "s", "t2"), stranger(Sender::node, "guess", "n");
    CHECK_FALSE(tracker.take_greeting(stranger.greeting()));
    std::string greeting = node.greeting();
    for (size_t i = 0; i < greeting.size(); ++i) {
        std::string damaged = greeting;
        damaged[i] = damaged[i] == 'x' ? 'y' : 'x';
        CHECK_FALSE(tracker.take_greeting(damaged));
    }
    CHECK_FALSE(node.take_greeting(node.greeting()));
    REQUIRE(tracker.take_greeting(greeting));
    REQUIRE(again.take_greeting(greeting));
    REQUIRE(node.take_greeting(tracker.greeting()));
    // A recorded conversation means nothing to a tracker with another nonce.
    std::string message = node.wrap("done 1");
    CHECK_FALSE(again.unwrap(message));
    CHECK_FALSE(tracker.unwrap(message + "0"));
    CHECK(tracker.unwrap(message));
}

TEST_CASE("share: nodes of another release are told so, and may say more in their first line", "[share][release]") {
    auto sealed = [](const std::string& words, const std::string& context) {
        return cat(words, ' ', oci::hmac_sha256("s", cat(words, '\n', context)));
    };
    Session tracker(Sender::tracker, "s", "t"), node(Sender::node, "s", "n");
    REQUIRE(tracker.take_greeting(sealed("berth-share-1 n new words", "node")));
    CHECK_FALSE(tracker.is_other_release());
    REQUIRE(tracker.take_greeting(sealed("berth-share-2 n new words", "node")));
    CHECK(tracker.is_other_release());
    CHECK(tracker.greeting() == sealed("berth-share-1 other", "srun n"));
    for (const std::string& line : {tracker.greeting(), sealed("berth-share-2 what ever", "srun n")})
        CHECK_THROWS_WITH(node.take_greeting(line), Catch::Contains("srun's berth is of another release"));
    CHECK_FALSE(node.take_greeting("berth-share-1 other " + std::string(64, '0')));
}
