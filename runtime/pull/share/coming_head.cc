#include "runtime/pull/share/coming_head.hh"

#include <bit>
#include <cstring>

#include "runtime/base/arrivals.hh"

namespace berth::pull::share {

static_assert(std::endian::native == std::endian::little, "heads of pieces are written as they lie in memory");

std::array<char, ComingHead::wire_size> encode(const ComingHead& head) {
    std::array<char, ComingHead::wire_size> out;
    std::memcpy(out.data(), &head.piece, 4);
    std::memcpy(out.data() + 4, &head.size, 4);
    std::memcpy(out.data() + 8, &head.offset, 4);
    return out;
}

std::optional<ComingHead> parse_coming_head(std::string_view bytes) {
    ComingHead head;
    if (bytes.size() != ComingHead::wire_size) return std::nullopt;
    std::memcpy(&head.piece, bytes.data(), 4);
    std::memcpy(&head.size, bytes.data() + 4, 4);
    std::memcpy(&head.offset, bytes.data() + 8, 4);
    bool is_word = head.piece >= ComingHead::failed;
    bool is_part = head.size > 0 && uint64_t{head.offset} + head.size <= Arrivals::piece_size;
    if (is_word ? head.size != 0 || head.offset != 0 : !is_part) return std::nullopt;
    return head;
}

}  // namespace berth::pull::share
