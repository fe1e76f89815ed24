#include "runtime/base/nearest.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth {

namespace {

/// Nobody means a word of this length.
constexpr size_t longest = 128;

/// How many letters have to be left out, added, replaced, or swapped with the next one (Damerau and Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
    for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
    for (size_t i = 1; i <= a.size(); ++i)
        for (size_t j = 1; j <= b.size(); ++j) {
            size_t change = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    return rows[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view text, const std::vector<std::string>& words) {
    if (text.empty() || text.size() > longest) return {};
    std::string out;
    size_t least = (text.size() + 2) / 3 + 1;
    for (const std::string& word : words)
        if (size_t found = distance(text, word); found < least) {
            least = found;
            out = word;
        }
    return out;
}

std::string meant(std::string_view text, const std::vector<std::string>& words) {
    std::string word = nearest(text, words);
    return word.empty() ? "" : cat("; did you mean ", word, "?");
}

}  // namespace berth
