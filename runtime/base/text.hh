// Small pure text helpers.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

namespace detail {
inline void append(std::string& out, std::string_view part) { out.append(part); }
inline void append(std::string& out, char part) { out.push_back(part); }
template <typename Number>
    requires std::is_arithmetic_v<Number>
void append(std::string& out, Number part) {
    out.append(std::to_string(part));
}
/// A value that says how it is written.
template <typename Part>
    requires requires(const Part& part) { std::string(part.text()); }
void append(std::string& out, const Part& part) {
    out.append(part.text());
}
}  // namespace detail

/// Joins strings, characters, numbers, and values that have a text(), into one string: cat("reading ", path, ": ", 3, "
/// bytes").
template <typename... Parts>
std::string cat(const Parts&... parts) {
    std::string out;
    (detail::append(out, parts), ...);
    return out;
}

/// The pieces of `text` between separators; one piece (perhaps empty) when there is none.
std::vector<std::string> split(std::string_view text, char separator);

/// `text` without blanks and line ends on both sides.
std::string_view trimmed(std::string_view text);

/// `text` in lower case (ASCII only).
std::string lower(std::string_view text);

/// `text` cut to `limit` bytes and with control characters and bytes that are not UTF-8 written as \xNN, so that text
/// from an image, a registry or a user can stand in a message on a terminal.
std::string printable(std::string_view text, size_t limit = 256);

/// `text` as one word of a POSIX shell: in single quotes.
std::string shell_word(std::string_view text);

/// A path as seen from `folder`: itself when it is absolute, else behind the folder, without a "./" at its start.
std::string path_from(std::string_view folder, std::string_view path);

/// "1.5 GB" for people; decimal units.
std::string human_bytes(uint64_t bytes);

/// The bytes as lowercase hex digits.
std::string hex_text(std::span<const unsigned char> bytes);

/// A decimal number and nothing else, in [0, limit]; false when `text` is anything else.
bool parse_number(std::string_view text, uint64_t limit, uint64_t& out);

/// A message about a mistake inside `input` at byte `position`: the message, the input and a caret under the mistake,
/// as three lines (the only errors of more than one line, for a person at a prompt).
std::string with_caret(std::string_view message, std::string_view input, size_t position);

}  // namespace berth
