// How the nodes of a step agree on a digest. The first byte of an input chooses who reads it: srun, a node, or the
// helper that is told where to ask; and whether the words come with the code of one who knows the secret.
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

const std::string secret = "0123456789abcdef0123456789abcdef", nonce = "once";

std::string sealed(std::string_view words, const std::string& context) {
    return cat(words, ' ', oci::hmac_sha256(secret, cat(words, '\n', context)));
}

void run_srun(std::string_view words) {
    pull::Agreement agreement(secret);
    std::string answer = agreement.answer(sealed(words, ""));
    if (answer.empty()) return;
    must(answer.size() < pull::agreement_line_limit && hostile::is_plain_line(answer), "an answer is no short line");
    std::string its_nonce = split(words, ' ').at(4);
    if (!words.starts_with("berth-agree-1 ")) {
        bool told = false;
        hostile::refusing([&] {
            pull::read_agreement(secret, its_nonce, answer);
            told = true;
        });
        return must(!told, "a node of another version takes the answer for a digest");
    }
    auto agreed = pull::read_agreement(secret, its_nonce, answer);
    must(agreed.has_value(), "a node cannot read the answer to its question");
    must(!pull::read_agreement(secret, its_nonce + "x", answer), "an answer is taken for that to another question");
    // The first word counts, whoever asks then.
    Digest other("sha256:" + std::string(64, 'f'));
    auto later = pull::read_agreement(secret, nonce,
                                      agreement.answer(pull::agreement_question(secret, "other", other, nonce)));
    must(later && later->digest == agreed->digest && later->node == agreed->node, "nodes get different answers");
}

void run_node(std::string_view words) {
    auto agreed = pull::read_agreement(secret, nonce, sealed(words, nonce));
    must(!agreed || Digest::parse(agreed->digest.text()), "a node takes what is no digest");
}

void run_address(std::string_view text) {
    pull::MeetingPlace place = pull::parse_agreement_address(std::string(text));
    must(text.starts_with(cat(place.host, ' ', place.port, ' ', place.secret, ' ', place.node, ' ')) &&
             text.ends_with(cat(place.rank)),
         "an address is another one");
}

void run(std::string_view input) {
    unsigned which = hostile::take_byte(input) % 4;
    if (which == 0) run_srun(input);
    if (which == 1) hostile::refusing([&] { run_node(input); });
    if (which == 2) hostile::refusing([&] { run_address(input); });
    if (which == 3) {
        must(pull::Agreement("another secret").answer(input).empty(), "an answer to one who does not know the secret");
        must(!pull::read_agreement("another secret", nonce, input), "an answer by one who does not know the secret");
    }
}

const hostile::Registration registration("agreement", run);

}  // namespace
