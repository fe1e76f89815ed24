// Messages between the plugin and its helper: packets, each with two bytes of length, the lower one first, before it.
#include "runtime/plan/messages.hh"
#include "tests/hostile/target.hh"

namespace {

void decode(const berth::Message& message) {
    using namespace berth::plan;
    using berth::hostile::refusing;
    refusing([&] { request_of(decode_step(message).options); });
    refusing([&] { decode_task(message); });
    refusing([&] { decode_ready(message); });
    refusing([&] { decode_failure(message); });
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
