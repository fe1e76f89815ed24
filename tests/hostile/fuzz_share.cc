// What the nodes of a step and the tracker beside srun say to one another about an image. The first byte of an input
// chooses who reads it: the tracker, a node; or a session, as a first line or a later one, with the code of one who
// knows the secret or without; or what stands before a chunk that another node sends, or all
// that such a node sends.
#include <algorithm>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/chunks/chunk_reader.hh"
#include "runtime/pull/nodes/protocol/messages.hh"
#include "runtime/pull/nodes/protocol/session.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using namespace berth::pull::nodes;
using hostile::must;

/// What a newer release says behind its number is not read.
bool is_newer(const Message& message) {
    const auto* hello = std::get_if<Hello>(&message);
    return hello != nullptr && hello->release > release;
}

void run_message(std::string_view words, Sender sender) {
    auto message = read_message(words, sender);
    if (!message) return;
    std::string again = words_of(*message);
    must(again == words || (is_newer(*message) && words.starts_with(again)), "a message is another one");
    if (const auto* alone = std::get_if<Alone>(&*message))
        must(alone->reason.empty() || hostile::is_plain_line(alone->reason), "a reason is no line");
}

void run_greeting(std::string_view words, const std::string& secret) {
    Session tracker(Sender::tracker, "secret", "t");
    bool known = tracker.take_greeting(cat(words, ' ', oci::hmac_sha256(secret, cat(words, "\nnode"))));
    must(!known || secret == "secret", "one who does not know the secret is greeted");
    if (known) must(hostile::is_plain_line(tracker.greeting()), "an answer is no line");
}

void run_later(std::string_view line) {
    Session tracker(Sender::tracker, "secret", "t"), node(Sender::node, "secret", "n");
    must(tracker.take_greeting(node.greeting()), "a node is not known");
    must(!tracker.unwrap(line), "a message of one who does not know the secret");
}

void run_head(std::string_view bytes) {
    auto head = parse_chunk_head(bytes);
    if (!head) return;
    std::array<char, ChunkHead::wire_size> again = encode(*head);
    must(bytes == std::string_view(again.data(), again.size()), "what stands before a chunk is something else");
    must((head->size > 0) == (head->index < ChunkHead::gone), "a chunk without bytes, or a word with some");
}

/// In chunks of 1 to 256 bytes, so that an input has some.
void run_chunks(std::string_view bytes) {
    auto size_of = [](uint32_t chunk) { return chunk % 256 + 1; };
    std::map<uint32_t, uint32_t> parts;
    uint32_t chunks = 0;
    ChunkReader reader({.size_of = [&](const ChunkHead& head) -> std::optional<uint32_t> {
                            if (head.index >= 300) return std::nullopt;
                            return size_of(head.index);
                        },
                        .whole =
                            [&](const ChunkHead& head, std::string_view whole) {
                                must(head.index < 300 && whole.size() == size_of(head.index), "another size");
                                parts.erase(head.index), ++chunks;
                            },
                        .part =
                            [&](uint32_t chunk, uint32_t offset, std::string_view part) {
                                must(offset == 0 || offset == parts[chunk], "a part that is not the next one");
                                parts[chunk] = offset + static_cast<uint32_t>(part.size());
                                must(parts[chunk] <= size_of(chunk), "a part behind the end");
                            }});
    size_t step = hostile::take_byte(bytes) % 37 + 1;
    bool goes_on = true;
    for (; goes_on && !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size())))
        goes_on = reader.take(bytes.substr(0, step));
    must(goes_on != !reader.problem().empty(), "a neighbour is left without a reason");
    must(reader.chunks() == chunks && parts.size() <= ChunkReader::unfinished_limit, "a wrong number of chunks");
}

void run(std::string_view input) {
    switch (hostile::take_byte(input) % 7) {
    case 0: return run_message(input, Sender::node);
    case 1: return run_message(input, Sender::tracker);
    case 2: return run_greeting(input, "secret");
    case 3: return run_greeting(input, "another");
    case 4: return run_later(input);
    case 5: return run_head(input);
    default: return run_chunks(input);
    }
}

const hostile::Registration registration("share", run);

}  // namespace
