// What somebody meant who wrote a word that is none.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// The one of `words` that `text` is most likely to stand for: with the fewest letters left out, added, replaced or
/// swapped, and not more than a third of them. Empty when there is none.
std::string nearest(std::string_view text, const std::vector<std::string>& words);

/// "; did you mean WORD?" of nearest(); empty when there is none.
std::string meant(std::string_view text, const std::vector<std::string>& words);

}  // namespace berth
