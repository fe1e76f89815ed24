// How layers and archives are compressed, recognised by their first bytes: the one list of it.
#pragma once
#include <cstdint>
#include <string_view>

namespace berth::oci {

enum class Packing { plain, gzip, zstd };

/// What begins with `magic`, where the bits of the first byte that `first_mask` lacks may be anything.
struct PackingMark {
    Packing packing;
    std::string_view magic;
    uint8_t first_mask = 0xFF;
};

inline constexpr PackingMark packing_marks[] = {
    {Packing::gzip, "\x1F\x8B"},
    {Packing::zstd, "\x28\xB5\x2F\xFD"},
    // Skippable frames begin with 0x184D2A50 to 0x184D2A5F, little endian (RFC 8878); tools put one first.
    {Packing::zstd, "\x50\x2A\x4D\x18", 0xF0},
};
/// First bytes that decide.
inline constexpr size_t longest_mark = [] {
    size_t longest = 0;
    for (const PackingMark& mark : packing_marks) longest = mark.magic.size() > longest ? mark.magic.size() : longest;
    return longest;
}();

/// `start` has the first bytes, at least longest_mark of them when there are so many. In a header alone, since the
/// program that has no other part of oci/ asks as well.
constexpr Packing packing_of(std::string_view start) {
    for (const PackingMark& mark : packing_marks) {
        if (start.size() < mark.magic.size()) continue;
        bool first = (static_cast<uint8_t>(start[0]) & mark.first_mask) == static_cast<uint8_t>(mark.magic[0]);
        if (first && start.substr(1, mark.magic.size() - 1) == mark.magic.substr(1)) return mark.packing;
    }
    return Packing::plain;
}

}  // namespace berth::oci
