#include "runtime/oci/base64.hh"

#include <algorithm>
#include <cstdint>

namespace berth::oci {

namespace {

int digit_value(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), 3))) {
        uint32_t bits = 0;
        for (size_t i = 0; i < 3; ++i)
            bits = bits << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
        for (size_t i = 0; i < 4; ++i) out += i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
    return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    std::string out;
    uint32_t bits = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        int value = i >= text.size() - padding ? 0 : digit_value(text[i]);
        if (value < 0) return std::nullopt;
        bits = bits << 6 | static_cast<uint32_t>(value);
        if (i % 4 != 3) continue;
        for (int shift : {16, 8, 0}) out.push_back(static_cast<char>(bits >> shift & 0xFF));
        bits = 0;
    }
    out.resize(out.size() - padding);
    return out;
}

}  // namespace berth::oci
