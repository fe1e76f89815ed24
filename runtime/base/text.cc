#include "runtime/base/text.hh"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace berth {

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> out;
    for (size_t start = 0;;) {
        size_t end = text.find(separator, start);
        out.emplace_back(text.substr(start, end - start));
        if (end == std::string_view::npos) return out;
        start = end + 1;
    }
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

namespace {

/// Length of the UTF-8 sequence at the start of `text`, 0 when it is none (RFC 3629).
size_t utf8_length(std::string_view text) {
    auto byte = static_cast<unsigned char>(text[0]);
    size_t length = byte < 0x80                   ? 1
                    : byte >= 0xC2 && byte < 0xE0 ? 2
                    : byte >= 0xE0 && byte < 0xF0 ? 3
                    : byte >= 0xF0 && byte < 0xF5 ? 4
                                                  : 0;
    if (length == 0 || length > text.size()) return 0;
    // What these leave out would be a longer form than needed, half of a UTF-16 pair, or beyond U+10FFFF.
    unsigned least = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    unsigned most = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    if (length > 1 && (static_cast<unsigned char>(text[1]) < least || static_cast<unsigned char>(text[1]) > most))
        return 0;
    for (size_t i = 1; i < length; ++i)
        if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
    return length;
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
    std::string out;
    bool cut = text.size() > limit;
    text = text.substr(0, limit);
    while (!text.empty()) {
        auto byte = static_cast<unsigned char>(text[0]);
        size_t length = utf8_length(text);
        // C1 controls (U+0080..U+009F) can drive a terminal just as C0 ones can.
        bool control =
            byte < 0x20 || byte == 0x7F || (byte == 0xC2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xA0);
        if (length == 0 || control) {
            char escaped[5];
            std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
            out += escaped;
            text.remove_prefix(1);
        } else {
            out += text.substr(0, length);
            text.remove_prefix(length);
        }
    }
    return cut ? out + "..." : out;
}

std::string path_from(std::string_view folder, std::string_view path) {
    if (path.starts_with('/')) return std::string(path);
    while (path.starts_with("./")) {
        path.remove_prefix(2);
        while (path.starts_with('/')) path.remove_prefix(1);
    }
    if (path.empty() || path == ".") return std::string(folder);
    return cat(folder, folder.ends_with('/') ? "" : "/", path);
}

std::string human_bytes(uint64_t bytes) {
    static const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 999.5 && unit < 6) {
        value /= 1000;
        ++unit;
    }
    char out[32];
    std::snprintf(out, sizeof out, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return out;
}

std::string hex_text(std::span<const unsigned char> bytes) {
    std::string out;
    for (unsigned char byte : bytes) {
        out += "0123456789abcdef"[byte >> 4];
        out += "0123456789abcdef"[byte & 15];
    }
    return out;
}

bool parse_number(std::string_view text, uint64_t limit, uint64_t& out) {
    uint64_t value = 0;
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || problem != std::errc{} || end != text.data() + text.size() || value > limit) return false;
    out = value;
    return true;
}

std::string shell_word(std::string_view text) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
    return out + "'";
}

std::string with_caret(std::string_view message, std::string_view input, size_t position) {
    std::string shown = printable(input, 4096);
    size_t column = printable(input.substr(0, std::min(position, input.size())), 4096).size();
    return cat(message, "\n  ", shown, "\n  ", std::string(column, ' '), "^");
}

}  // namespace berth
