#include "runtime/base/siphash.hh"

#include <sys/random.h>

#include <bit>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"

namespace berth {

static_assert(std::endian::native == std::endian::little, "words of a message are taken as they lie in memory");

namespace {

struct State {
    uint64_t a, b, c, d;
    void round() {
        a += b, c += d;
        b = std::rotl(b, 13) ^ a, d = std::rotl(d, 16) ^ c;
        a = std::rotl(a, 32);
        c += b, a += d;
        b = std::rotl(b, 17) ^ c, d = std::rotl(d, 21) ^ a;
        c = std::rotl(c, 32);
    }
    void take(uint64_t word) {
        d ^= word;
        round(), round();
        a ^= word;
    }
};

}  // namespace

SipKey random_sip_key() {
    SipKey out;
    if (sys::uninterrupted([&] { return ::getrandom(&out, sizeof out, 0); }) != static_cast<ssize_t>(sizeof out))
        throw SysError("getting a random number");
    return out;
}

uint64_t siphash(const SipKey& key, std::string_view data) {
    State state{key.first ^ 0x736f6d6570736575, key.second ^ 0x646f72616e646f6d, key.first ^ 0x6c7967656e657261,
                key.second ^ 0x7465646279746573};
    uint64_t last = static_cast<uint64_t>(data.size()) << 56, word = 0;
    for (; data.size() >= sizeof word; data.remove_prefix(sizeof word)) {
        std::memcpy(&word, data.data(), sizeof word);
        state.take(word);
    }
    for (size_t i = 0; i < data.size(); ++i) last |= uint64_t{static_cast<unsigned char>(data[i])} << (8 * i);
    state.take(last);
    state.c ^= 0xff;
    for (int i = 0; i < 4; ++i) state.round();
    return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace berth
