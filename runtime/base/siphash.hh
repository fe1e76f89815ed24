// SipHash-2-4 (Aumasson and Bernstein, 2012): 64 bits that who does not have the key cannot make for other bytes.
#pragma once
#include <cstdint>
#include <string_view>

namespace berth {

struct SipKey {
    uint64_t first = 0, second = 0;  ///< in the order of the 16 bytes that the paper has, little-endian
};

/// A key that nobody can guess. Throws SysError.
SipKey random_sip_key();

/// Pure.
uint64_t siphash(const SipKey& key, std::string_view data);

}  // namespace berth
