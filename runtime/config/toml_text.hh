// What keeps characters beyond ASCII from toml++ 3.3 where its tables of them reach what the compiler takes for
// unreachable. Pure.
#pragma once
#include <string>
#include <string_view>

namespace berth::plan {

bool is_ascii(std::string_view text);

/// The same text with an `x` for each byte beyond ASCII: TOML if and only if `text` is TOML but for such bytes outside
/// of quotes.
std::string with_ascii_only(std::string_view text);

/// Refuses bytes beyond ASCII outside of quotes and comments. Throws Error naming `name`, line and column.
/// `with_ascii_only(text)` has to be TOML, so that there is no doubt about what is in quotes.
void check_quoted(std::string_view text, const std::string& name);

}  // namespace berth::plan
