// Texts as JSON strings, for programs that link no JSON library.
#pragma once
#include <string>
#include <string_view>

namespace berth {

/// A JSON string with its quotes, which TOML reads as the same. Control characters and bytes that are not UTF-8 are
/// written as printable() does.
std::string json_text(std::string_view text);

}  // namespace berth
