#include "runtime/store/profile.hh"

namespace berth::store {

std::vector<uint32_t> parse_profile(std::string_view bytes, uint32_t count) {
    std::vector<uint32_t> out;
    std::vector<bool> seen(count);
    for (; bytes.size() >= 4; bytes.remove_prefix(4)) {
        uint32_t chunk = 0;
        for (size_t i = 4; i-- > 0;) chunk = chunk << 8 | static_cast<unsigned char>(bytes[i]);
        if (chunk >= count || seen[chunk]) continue;
        seen[chunk] = true;
        out.push_back(chunk);
    }
    return out;
}

std::string format_profile(const std::vector<uint32_t>& chunks) {
    std::string out;
    for (uint32_t chunk : chunks)
        for (unsigned i = 0; i < 4; ++i) out += static_cast<char>(chunk >> (8 * i));
    return out;
}

}  // namespace berth::store
