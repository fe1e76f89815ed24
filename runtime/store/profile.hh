// What a start of an image reads, as a file of the image's folder in the store: numbers of chunks (ChunkMap) of its
// layer files, which follow each other as in the index, in the order of their first use. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::store {

inline constexpr const char* profile_file = "profile";

/// Four bytes each, little-endian. Each chunk once, where it comes first, without those that an image of `count` chunks
/// does not have.
std::vector<uint32_t> parse_profile(std::string_view bytes, uint32_t count);
std::string format_profile(const std::vector<uint32_t>& chunks);

}  // namespace berth::store
