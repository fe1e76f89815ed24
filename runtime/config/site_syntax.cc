#include "runtime/config/site_syntax.hh"

#include <algorithm>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/toml_text.hh"

namespace berth::plan {

namespace {

constexpr size_t most_mistakes = 20;

toml::table parse_any(std::string_view text, const std::string& name) {
    if (!is_ascii(text)) {
        static_cast<void>(toml::parse(with_ascii_only(text), name));
        check_quoted(text, name);
    }
    return toml::parse(text, name);
}

/// The line at whose end the text has become one that breaks an assertion.
size_t broken_line(std::string_view text, const std::string& name) {
    size_t line = 1;
    for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n', end + 1), ++line) try {
            parse_any(text.substr(0, end), name);
        } catch (const std::runtime_error&) {
            // What is not finished at this line goes on below it.
        } catch (const BrokenAssertion&) {
            break;
        }
    return line;
}

toml::table parse_whole(std::string_view text, const std::string& name) {
    try {
        return parse_any(text, name);
    } catch (const toml::parse_error& error) {
        // The library's words may hold pieces of the file.
        throw Error(cat(place(name, error.source()), ": ", printable(error.description())));
    } catch (const BrokenAssertion&) {
        throw Error(
            cat(name, ":", broken_line(text, name), ": this is no TOML: a name, a value or a bracket is missing"));
    }
}

/// The table, or nothing and what is wrong.
std::optional<toml::table> parse_once(std::string_view text, const std::string& name, std::string& mistake) {
    try {
        return parse_whole(text, name);
    } catch (const Error& error) {
        mistake = error.what();
        return std::nullopt;
    }
}

size_t start_of_line(std::string_view text, size_t line) {
    size_t at = 0;
    for (; line > 1 && at != text.npos; --line)
        at = text.find('\n', at) == text.npos ? text.npos : text.find('\n', at) + 1;
    return std::min(at, text.size());
}

bool is_header(std::string_view line) { return trimmed(line).starts_with('['); }

/// Makes the line that starts at `at` an empty one. The keys below the broken name of a section belong to no other, so
/// that they go with it.
void blank_line(std::string& text, size_t at) {
    auto blank = [&](size_t start) {
        size_t end = std::min(text.find('\n', start), text.size());
        std::fill(text.begin() + static_cast<ptrdiff_t>(start), text.begin() + static_cast<ptrdiff_t>(end), ' ');
        return std::min(end + 1, text.size());
    };
    auto line_at = [&](size_t start) { return std::string_view(text).substr(start, text.find('\n', start) - start); };
    bool header = is_header(line_at(at));
    at = blank(at);
    while (header && at < text.size() && !is_header(line_at(at))) at = blank(at);
}

}  // namespace

toml::table parse_toml(std::string_view text, const std::string& name, Mistakes& mistakes) {
    std::string rest(text), mistake, ignored;
    for (;;) {
        if (auto table = parse_once(rest, name, mistake)) return std::move(*table);
        mistakes.push_back(mistake);
        size_t line = position_of(mistake, name).line, start = start_of_line(rest, line);
        // Where the lines above are no TOML by themselves, one of them was left open, and this one may well be good.
        bool certain = line > 0 && mistakes.size() < most_mistakes &&
                       parse_once(std::string_view(rest).substr(0, start), name, ignored);
        if (!certain) return {};
        blank_line(rest, start);
    }
}

Position position_of(std::string_view message, const std::string& name) {
    if (!message.starts_with(name + ":")) return {};
    std::vector<std::string> numbers = split(message.substr(name.size() + 1), ':');
    uint64_t line = 0, column = 0;
    if (!parse_number(numbers[0], SIZE_MAX, line)) return {};
    if (numbers.size() < 2 || !parse_number(numbers[1], SIZE_MAX, column) || column == 0) column = 1;
    return {line, column};
}

}  // namespace berth::plan
