// The name of some bytes: their SHA-256.
#pragma once
#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace berth {

/// "sha256:" and 64 lower-case hexadecimal digits, the only form that may reach a path or a URL. Made by reading a text
/// alone, so that whoever has one need not check it.
class Digest {
  public:
    /// Nothing for any other text.
    static std::optional<Digest> parse(std::string_view text);
    /// Throws Error for any other text.
    explicit Digest(std::string_view text);
    /// Of the digits alone, as file names have them; nothing for any other text.
    static std::optional<Digest> from_hex(std::string_view digits);

    std::string text() const;
    /// The 64 digits.
    std::string hex() const { return {digits_.data(), digits_.size()}; }

    auto operator<=>(const Digest&) const = default;
    bool operator==(const Digest&) const = default;
    /// Whether that is how the text has it.
    bool operator==(std::string_view text) const { return this->text() == text; }

  private:
    Digest() = default;
    std::array<char, 64> digits_;
};

/// Empty for none, as events and reports have it.
inline std::string text_of(const std::optional<Digest>& digest) { return digest ? digest->text() : std::string(); }

}  // namespace berth
