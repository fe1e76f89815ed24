// Messages between the plugin and its helper: packets, each with two bytes of length, the lower one first, before it.
#include "runtime/plan/messages.hh"
#include "tests/hostile/target.hh"

namespace {

/// What was read is written and read again.
template <typename Value>
void again(const Value& value, Value (*decode)(const berth::Message&)) {
    berth::hostile::must(decode(berth::plan::encode(value)) == value, "a message that is written is another one");
}

void decode(const berth::Message& message) {
    using namespace berth::plan;
    using berth::hostile::refusing;
    refusing([&] { request_of(decode_step(message).options); });
    refusing([&] { again(decode_step(message), decode_step); });
    refusing([&] { again(decode_task(message), decode_task); });
    refusing([&] { again(decode_ready(message), decode_ready); });
    refusing([&] { again(decode_failure(message), decode_failure); });
    refusing([&] { again(decode_info(message), decode_info); });
    refusing([&] { progress_text(message); });
    berth::Assembler assembler;
    bool complete = false;
    for (const std::string& packet : berth::packets_of(message)) complete = assembler.add(packet);
    berth::hostile::must(complete && assembler.take().records == message.records, "a message that is sent is another");
}

void run(std::string_view input) {
    berth::Assembler assembler;
    berth::hostile::refusing([&] {
        while (!input.empty()) {
            size_t size = berth::hostile::take_byte(input);
            size += size_t{berth::hostile::take_byte(input)} << 8;
            if (assembler.add(berth::hostile::take(input, size))) decode(assembler.take());
        }
    });
}

const berth::hostile::Registration registration("messages", run);

}  // namespace
