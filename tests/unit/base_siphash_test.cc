#include <string>

#include "runtime/base/siphash.hh"
#include "tests/catch.hh"

using namespace berth;

// The paper's own example (appendix A), and lines of the table in its reference implementation (vectors.h): the key is
// the bytes 0 to 15, the message as many bytes from 0 on.
TEST_CASE("SipHash-2-4 gives the values of its reference implementation", "[base]") {
    SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
    auto sum = [&](size_t size) {
        std::string message;
        for (size_t i = 0; i < size; ++i) message += static_cast<char>(i);
        return siphash(key, message);
    };
    CHECK(sum(0) == 0x726fdb47dd0e0e31);
    CHECK(sum(1) == 0x74f839c593dc67fd);
    CHECK(sum(8) == 0x93f5f5799a932462);
    CHECK(sum(15) == 0xa129ca6149be45e5);
    CHECK(sum(63) == 0x958a324ceb064572);
    key.second ^= 1;
    CHECK(sum(15) != 0xa129ca6149be45e5);
}

TEST_CASE("keys of SipHash are other ones each time", "[base]") {
    SipKey one = random_sip_key(), other = random_sip_key();
    CHECK(one.first != other.first);
    CHECK(one.second != other.second);
}
