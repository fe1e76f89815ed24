#include "runtime/store/profile.hh"

namespace berth::store {

std::vector<uint32_t> parse_profile(std::string_view bytes, uint32_t count) {
    std::vector<uint32_t> out;
    std::vector<bool> seen(count);
    for (; bytes.size() >= 4; bytes.remove_prefix(4)) {
        uint32_t piece = 0;
        for (size_t i = 4; i-- > 0;) piece = piece << 8 | static_cast<unsigned char>(bytes[i]);
        if (piece >= count || seen[piece]) continue;
        seen[piece] = true;
        out.push_back(piece);
    }
    return out;
}

std::string format_profile(const std::vector<uint32_t>& pieces) {
    std::string out;
    for (uint32_t piece : pieces)
        for (unsigned i = 0; i < 4; ++i) out += static_cast<char>(piece >> (8 * i));
    return out;
}

}  // namespace berth::store
