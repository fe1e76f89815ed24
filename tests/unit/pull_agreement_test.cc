#include <chrono>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "tests/catch.hh"
#include "tests/unit/pull_tracker_process.hh"

using namespace berth;
using namespace berth::pull;

namespace {

const Digest one("sha256:" + std::string(64, '1')), two("sha256:" + std::string(64, '2'));

}  // namespace

TEST_CASE("agreement: a code as RFC 4231 has it", "[pull]") {
    CHECK(oci::hmac_sha256("Jefe", "what do ya want for nothing?") ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("agreement: two codes are the same only as a whole", "[pull]") {
    CHECK(oci::same_code("abcd", "abcd"));
    CHECK(oci::same_code("", ""));
    for (const char* other : {"", "abc", "abcde", "xbcd", "abcx", "ABCD"}) CHECK_FALSE(oci::same_code("abcd", other));
}

TEST_CASE("agreement: the first word counts, for every node", "[pull]") {
    Agreement agreement("s");
    auto said = [&](const std::string& node, const Digest& digest) {
        return read_agreement("s", "nonce", agreement.answer(agreement_question("s", node, digest, "nonce")));
    };
    auto first = said("n1", one), second = said("n2", two), again = said("n1", two);
    REQUIRE((first && second && again));
    CHECK((first->digest == one && first->node == "n1"));
    CHECK((second->digest == one && second->node == "n1"));
    CHECK(again->digest == one);
}

TEST_CASE("agreement: nobody without the secret is heard or believed", "[pull]") {
    Agreement agreement("s");
    CHECK(agreement.answer(agreement_question("other", "n1", one, "nonce")).empty());
    std::string question = agreement_question("s", "n1", one, "nonce");
    for (size_t i = 0; i < question.size(); ++i) {
        std::string damaged = question;
        damaged[i] = damaged[i] == 'x' ? 'y' : 'x';
        CHECK(agreement.answer(damaged).empty());
    }
    auto sealed = [](const std::string& words) { return cat(words, ' ', oci::hmac_sha256("s", words + '\n')); };
    CHECK_FALSE(agreement.answer(sealed(cat("berth-agree-1 ask n1 ", one, " n"))).empty());
    for (const std::string& bad :
         {std::string(), std::string(" "), std::string("berth-agree-1"), std::string(5000, 'a'),
          sealed("berth-agree-1 ask n1 no digest n"), sealed("berth-agree-1 ask n1 sha256:../x n"),
          agreement_question("s", "n 1", one, "n"), agreement_question("s", "n1", one, "")})
        CHECK(agreement.answer(bad).empty());
    std::string answer = agreement.answer(question);
    CHECK(read_agreement("s", "nonce", answer));
    CHECK_FALSE(read_agreement("s", "another", answer));
    CHECK_FALSE(read_agreement("other", "nonce", answer));
    CHECK_FALSE(read_agreement("s", "nonce", question));
    CHECK_FALSE(read_agreement("s", "nonce", ""));
}

TEST_CASE("agreement: another release may say more, and is told what it cannot agree on", "[pull][release]") {
    Agreement agreement("s");
    auto sealed = [](const std::string& words, const std::string& context) {
        return cat(words, ' ', oci::hmac_sha256("s", cat(words, '\n', context)));
    };
    // Words that are not known are passed over, in questions and answers.
    auto answer =
        read_agreement("s", "n", agreement.answer(sealed(cat("berth-agree-1 ask n1 ", one, " n new words"), "")));
    REQUIRE(answer);
    CHECK(answer->digest == one);
    CHECK(read_agreement("s", "n", sealed(cat("berth-agree-1 run n1 ", two, " new words"), "n"))->digest == two);
    // A node of another version is answered so that it knows why.
    std::string other = agreement.answer(sealed("berth-agree-2 ask what ever n", ""));
    CHECK(other == sealed("berth-agree-1 other", "n"));
    for (const std::string& line : {other, sealed("berth-agree-2 run what ever", "n")})
        CHECK_THROWS_WITH(read_agreement("s", "n", line), Catch::Contains("srun's berth is of another release"));
    // Nobody without the secret makes a node say so.
    CHECK(agreement.answer("berth-agree-2 ask what ever n " + std::string(64, '0')).empty());
    CHECK_FALSE(read_agreement("s", "n", "berth-agree-1 other " + std::string(64, '0')));
}

TEST_CASE("agreement: over TCP, with many nodes at once", "[pull]") {
    TrackerProcess server(40);
    std::vector<std::string> got(40);
    std::vector<std::thread> nodes;
    for (size_t i = 0; i < got.size(); ++i)
        nodes.emplace_back([&, i] {
            try {
                got[i] = agree(server.place(cat("n", i)), i % 2 == 0 ? one : two, "image x").digest.text();
            } catch (const Error& error) {
                got[i] = error.what();
            }
        });
    for (std::thread& node : nodes) node.join();
    for (const std::string& digest : got) CHECK(digest == got[0]);
    CHECK((got[0] == one || got[0] == two));
    MeetingPlace stranger = server.place("n1");
    stranger.secret = "guessed";
    CHECK_THROWS_WITH(
        agree(stranger, one, "image x"),
        Catch::Contains("agreeing with the step's other nodes on image x") && Catch::Contains("no answer"));
}

TEST_CASE("agreement: who connects and says nothing keeps no node from being answered", "[pull]") {
    TrackerProcess server(40);
    std::vector<Fd> silent;
    for (int i = 0; i < 600; ++i) silent.push_back(server.stranger());
    auto before = std::chrono::steady_clock::now();
    CHECK(agree(server.place("n1"), one, "image x").digest == one);
    // They would be given up after ten.
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(8));
}

TEST_CASE("agreement: a place where nobody listens, and what is no place", "[pull]") {
    MeetingPlace nowhere{"127.0.0.1", "1", "s", "n1", 0};
    CHECK_THROWS_WITH(agree(nowhere, one, "image x"),
                      Catch::Contains("127.0.0.1 port 1: Connection refused; name the image by digest"));
    for (const char* bad : {"", "a b c", "a b c d", "a b c d e", "a b c d;e 1", "a b  d 1", "a b c d -1",
                            "a b c d 1 1"})
        CHECK_THROWS_AS(parse_agreement_address(bad), Error);
    MeetingPlace place = parse_agreement_address("h 1 s n1 7");
    CHECK((place.host == "h" && place.port == "1" && place.secret == "s" && place.node == "n1" && place.rank == 7));
}
