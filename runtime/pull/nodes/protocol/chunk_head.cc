#include "runtime/pull/nodes/protocol/chunk_head.hh"

#include <bit>
#include <cstring>

#include "runtime/base/chunk_map.hh"
#include "runtime/oci/sha256.hh"

namespace berth::pull::nodes {

static_assert(std::endian::native == std::endian::little && sizeof(ChunkHead) == ChunkHead::wire_size,
              "heads of chunks are written as they lie in memory");

ChunkSum sum_of_chunk(std::string_view bytes) {
    return oci::sha256_bytes(bytes);
}

std::array<char, ChunkHead::wire_size> encode(const ChunkHead& head) {
    return std::bit_cast<std::array<char, ChunkHead::wire_size>>(head);
}

std::optional<ChunkHead> parse_chunk_head(std::string_view bytes) {
    ChunkHead head;
    if (bytes.size() != ChunkHead::wire_size) return std::nullopt;
    std::memcpy(&head, bytes.data(), bytes.size());
    bool is_word = head.index >= ChunkHead::gone;
    bool is_part = head.size > 0 && uint64_t{head.offset} + head.size <= ChunkMap::chunk_size;
    if (is_word ? head.size != 0 || head.offset != 0 : !is_part) return std::nullopt;
    return head;
}

}  // namespace berth::pull::nodes
