#include "runtime/base/digest.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr std::string_view prefix = "sha256:";

bool is_lower_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

std::optional<Digest> Digest::from_hex(std::string_view digits) {
    Digest out;
    if (digits.size() != out.digits_.size() || !std::all_of(digits.begin(), digits.end(), is_lower_hex))
        return std::nullopt;
    std::copy(digits.begin(), digits.end(), out.digits_.begin());
    return out;
}

std::optional<Digest> Digest::parse(std::string_view text) {
    return text.starts_with(prefix) ? from_hex(text.substr(prefix.size())) : std::nullopt;
}

Digest::Digest(std::string_view text) {
    auto parsed = parse(text);
    if (!parsed)
        throw Error(cat("digest ", printable(text), ": not sha256: and 64 lower-case hexadecimal digits"));
    *this = *parsed;
}

std::string Digest::text() const { return cat(prefix, std::string_view(digits_.data(), digits_.size())); }

}  // namespace berth
