// What the nodes of a step and the tracker beside srun say to one another about an image. The first byte of an input
// chooses who reads it: the tracker, a node; or a session, as a first line or a later one, with the code of one who
// knows the secret or without; or what stands before a piece that another node sends.
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/share/coming_head.hh"
#include "runtime/pull/share/messages.hh"
#include "runtime/pull/share/session.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using namespace berth::pull::share;
using hostile::must;

void run_from_node(std::string_view words) {
    if (auto message = read_from_node(words)) must(words_of(*message) == words, "a node's message is another one");
}

void run_to_node(std::string_view words) {
    auto message = read_to_node(words);
    if (!message) return;
    must(words_of(*message) == words, "a message to a node is another one");
    if (const auto* alone = std::get_if<Alone>(&*message))
        must(alone->reason.empty() || hostile::is_plain_line(alone->reason), "a reason is no line");
}

void run_greeting(std::string_view words, const std::string& secret) {
    Session tracker(Session::End::tracker, "secret", "t");
    bool known = tracker.take_greeting(cat(words, ' ', oci::hmac_sha256(secret, cat(words, "\nnode"))));
    must(!known || secret == "secret", "one who does not know the secret is greeted");
    if (known) must(hostile::is_plain_line(tracker.greeting()), "an answer is no line");
}

void run_later(std::string_view line) {
    Session tracker(Session::End::tracker, "secret", "t"), node(Session::End::node, "secret", "n");
    must(tracker.take_greeting(node.greeting()), "a node is not known");
    must(!tracker.open(line), "a message of one who does not know the secret");
}

void run_coming_head(std::string_view bytes) {
    auto head = parse_coming_head(bytes);
    if (!head) return;
    std::array<char, ComingHead::wire_size> again = encode(*head);
    must(bytes == std::string_view(again.data(), again.size()), "what stands before a piece is something else");
    must((head->size > 0) == (head->piece < ComingHead::failed), "a piece without bytes, or a word with some");
}

void run(std::string_view input) {
    switch (hostile::take_byte(input) % 6) {
    case 0: return run_from_node(input);
    case 1: return run_to_node(input);
    case 2: return run_greeting(input, "secret");
    case 3: return run_greeting(input, "another");
    case 4: return run_later(input);
    default: return run_coming_head(input);
    }
}

const hostile::Registration registration("share", run);

}  // namespace
