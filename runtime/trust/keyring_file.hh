// Keyrings of people, files of OpenPGP packets, which the program gpg reads and changes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::trust {

struct KeyringEntry {
    std::string fingerprint;  ///< of the primary key, hexadecimal digits in upper case
    std::string name;         ///< its first user id; empty: none
    int64_t created = 0;      ///< seconds since 1970
    unsigned bits = 0;
};

/// The primary keys in `packets`. Throws Error: no gpg, or no keys of its.
std::vector<KeyringEntry> keys_in(std::string_view packets);

/// `packets` with the public keys of `more`, in armor or not. Throws Error where there is none.
std::string with_keys(std::string_view packets, std::string_view more);

/// `packets` without the key of that fingerprint. Throws Error where it has none.
std::string without_key(std::string_view packets, const std::string& fingerprint);

}  // namespace berth::trust
