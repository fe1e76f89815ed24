#include "runtime/migrate/lines.hh"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "runtime/base/text.hh"

namespace berth::migrate {

namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view stripped(std::string_view text) {
    size_t begin = text.find_first_not_of(blanks);
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> out;
    for (size_t at = line.find_first_not_of(blanks); at != line.npos;) {
        size_t end = std::min(line.find_first_of(blanks, at), line.size());
        out.emplace_back(line.substr(at, end - at));
        at = line.find_first_not_of(blanks, end);
    }
    return out;
}

/// Calls `take` with the number and the text of each line that is neither empty nor a comment.
template <typename Take>
void each_line(std::string_view text, Take take) {
    size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        std::string_view rest = stripped(line);
        if (!rest.empty() && rest[0] != '#') take(number, rest);
    }
}

bool is_name(std::string_view text) {
    auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
        return letter(c) || (c >= '0' && c <= '9');
    });
}

std::string_view unquoted(std::string_view text) {
    auto quote = [](char c) { return c == '"' || c == '\''; };
    return text.size() >= 2 && quote(text.front()) && quote(text.back()) ? text.substr(1, text.size() - 2) : text;
}

/// \040 and its like.
std::string unescaped(std::string_view word) {
    auto digit = [&](size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '7'; };
    std::string out;
    for (size_t at = 0; at < word.size(); ++at) {
        if (word[at] != '\\' || !digit(at + 1) || !digit(at + 2) || !digit(at + 3)) {
            out += word[at];
            continue;
        }
        out += static_cast<char>((word[at + 1] - '0') * 64 + (word[at + 2] - '0') * 8 + (word[at + 3] - '0'));
        at += 3;
    }
    return out;
}

/// Whether the third word of a line is the options already: there is a comma, or it is one that no type is called.
bool has_options(std::string_view word) {
    constexpr std::string_view alone[] = {"ro",      "rw",       "bind",   "rbind",  "private", "rprivate",
                                          "slave",   "rslave",   "shared", "rshared", "nofail",  "defaults",
                                          "noatime", "relatime", "noexec", "nosuid", "nodev",   "x-detach"};
    return word.find(',') != word.npos || word.starts_with("x-create=") ||
           std::find(std::begin(alone), std::end(alone), word) != std::end(alone);
}

FstabLine fstab_line(size_t number, std::string_view line) {
    FstabLine out;
    out.line = number;
    std::vector<std::string> words = words_of(line);
    for (const std::string& word : words) out.text += cat(out.text.empty() ? "" : " ", word);
    out.source = unescaped(words[0]);
    if (words.size() > 1) out.target = unescaped(words[1]);
    size_t options = words.size() > 2 && has_options(words[2]) ? 2 : 3;
    if (options == 3 && words.size() > 2) out.type = words[2];
    if (words.size() > options)
        for (const std::string& option : split(words[options], ','))
            if (!option.empty()) out.options.push_back(option);
    return out;
}

}  // namespace

std::vector<Setting> parse_enroot_conf(std::string_view text) {
    std::vector<Setting> out;
    each_line(text, [&](size_t number, std::string_view line) {
        std::string_view name = line.substr(0, line.find_first_of(" \t="));
        std::string_view value = stripped(line.substr(name.size()));
        if (value.starts_with('=')) value = stripped(value.substr(1));
        if (is_name(name))
            out.push_back({number, std::string(name), std::string(value)});
        else
            out.push_back({number, {}, std::string(line)});
    });
    return out;
}

std::vector<Setting> parse_environ(std::string_view text) {
    std::vector<Setting> out;
    each_line(text, [&](size_t number, std::string_view line) {
        size_t equals = line.find('=');
        if (equals != line.npos && is_name(line.substr(0, equals)))
            out.push_back({number, std::string(line.substr(0, equals)),
                           std::string(unquoted(line.substr(equals + 1)))});
        else
            out.push_back({number, {}, std::string(line)});
    });
    return out;
}

std::vector<FstabLine> parse_fstab(std::string_view text) {
    std::vector<FstabLine> out;
    each_line(text, [&](size_t number, std::string_view line) { out.push_back(fstab_line(number, line)); });
    return out;
}

Plugstack parse_plugstack(std::string_view text) {
    Plugstack out;
    each_line(text, [&](size_t number, std::string_view line) {
        std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
        if (words.size() < 2) return;
        if (words[0] == "include") out.includes.push_back(words[1]);
        if (words[0] == "required" || words[0] == "optional")
            out.plugins.push_back({number, words[1], {words.begin() + 2, words.end()}});
    });
    return out;
}

namespace {

/// $NAME or ${NAME}, which needs no shell.
bool is_variable(std::string_view text) {
    text.remove_prefix(1);
    if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
    bool begins = !text.empty() && (text[0] < '0' || text[0] > '9');
    return begins && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return (c < 128 && std::isalnum(c) != 0) || c == '_';
    });
}

}  // namespace

std::vector<Login> parse_credentials(std::string_view text) {
    std::vector<Login> out;
    each_line(text, [&](size_t number, std::string_view line) {
        std::vector<std::string> words = words_of(line);
        if (words.size() < 2 || words[0] != "machine") return;
        bool is_expression = words.size() >= 6 && words[5].starts_with('$');
        out.push_back({number, words[1], is_expression && !(words.size() == 6 && is_variable(words[5]))});
    });
    return out;
}

}  // namespace berth::migrate
