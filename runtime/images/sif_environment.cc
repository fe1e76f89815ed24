#include "runtime/images/sif_environment.hh"

#include <algorithm>
#include <optional>

#include "runtime/base/text.hh"

namespace berth {

namespace {

bool is_letter(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_variable(std::string_view name) {
    return !name.empty() && is_letter(name[0]) &&
           std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c); });
}

/// What stands between double quotes, as a shell reads it; nothing where it is more than text.
std::optional<std::string> in_double_quotes(std::string_view text) {
    constexpr std::string_view special = "\"$`\\";
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        bool is_escaped = text[i] == '\\' && i + 1 < text.size() && special.find(text[i + 1]) != special.npos;
        if (is_escaped)
            ++i;
        else if (text[i] != '\\' && special.find(text[i]) != special.npos)
            return std::nullopt;
        out += text[i];
    }
    return out;
}

std::optional<std::string> plain_word(std::string_view text) {
    auto is_plain = [](char c) {
        return is_letter(c) || is_digit(c) || std::string_view("./:,+@%=-").find(c) != std::string_view::npos;
    };
    return std::ranges::all_of(text, is_plain) ? std::optional(std::string(text)) : std::nullopt;
}

bool is_between(std::string_view text, std::string_view before, std::string_view after) {
    return text.size() >= before.size() + after.size() && text.starts_with(before) && text.ends_with(after);
}

/// The value of a shell word; nothing where it is more than text.
std::optional<std::string> value_of(std::string_view word, std::string_view name) {
    // Where the variable has a value, Apptainer leaves it; which one counts is decided later here.
    std::string default_start = cat("\"${", name, ":-\"");
    constexpr std::string_view default_end = "\"}\"";
    if (is_between(word, default_start, default_end))
        return in_double_quotes(
            word.substr(default_start.size(), word.size() - default_start.size() - default_end.size()));
    if (is_between(word, "\"", "\"")) return in_double_quotes(word.substr(1, word.size() - 2));
    if (is_between(word, "'", "'")) {
        std::string_view text = word.substr(1, word.size() - 2);
        return text.find('\'') == text.npos ? std::optional(std::string(text)) : std::nullopt;
    }
    return plain_word(word);
}

void set(std::vector<std::string>& env, std::string_view name, const std::string& value) {
    std::string line = cat(name, "=", value), start = cat(name, "=");
    auto found = std::ranges::find_if(env, [&](const std::string& one) { return one.starts_with(start); });
    if (found == env.end())
        env.push_back(std::move(line));
    else
        *found = std::move(line);
}

}  // namespace

void SifEnvironment::read(std::string_view script) {
    constexpr std::string_view exported = "export ";
    for (const std::string& whole : split(script, '\n')) {
        std::string_view line = trimmed(whole);
        if (line.empty() || line.front() == '#') continue;
        if (line.starts_with(exported)) line = trimmed(line.substr(exported.size()));
        size_t equals = line.find('=');
        std::string_view name = line.substr(0, equals);
        // `export NAME` alone, and that of a variable which the image leaves to others.
        if (equals == line.npos && is_variable(name)) continue;
        std::string_view word = equals == line.npos ? std::string_view() : line.substr(equals + 1);
        if (word == cat("\"${", name, ":-}\"")) continue;
        auto value = is_variable(name) && line.find('\0') == line.npos ? value_of(word, name) : std::nullopt;
        if (value)
            set(env, name, *value);
        else
            ++unread;
    }
}

bool is_script_of_apptainer(std::string_view name) {
    constexpr std::string_view all[] = {"01-base.sh", "94-appsbase.sh", "95-apps.sh", "99-base.sh",
                                        "99-runtimevars.sh"};
    return std::ranges::find(all, name) != std::end(all);
}

}  // namespace berth
