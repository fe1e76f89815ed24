#include "runtime/doctor/slurm_conf.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr size_t conf_limit = 1 << 20;
constexpr unsigned include_depth = 4;  ///< ends circles
constexpr const char* blanks = " \t\r\n\v\f";

using Included = std::function<std::string(const std::string&)>;

/// Up to a # that no backslash stands before.
std::string_view without_comment(std::string_view line) {
    bool escaped = false;
    for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '#' && !escaped) return line.substr(0, i);
        escaped = line[i] == '\\' && !escaped;
    }
    return line;
}

/// Takes the backslash at the end away by which a line goes on with the next one.
bool goes_on(std::string& line) {
    size_t last = line.find_last_not_of(blanks);
    if (last == line.npos || line[last] != '\\') return false;
    size_t before = line.find_last_not_of('\\', last);
    size_t backslashes = last - (before == line.npos ? 0 : before + 1) + 1;
    if (backslashes % 2 == 0) return false;
    line.erase(last);
    return true;
}

std::string unescaped(std::string_view line) {
    std::string out;
    for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && ++i == line.size()) break;
        out += line[i];
    }
    return out;
}

std::vector<std::string> whole_lines(std::string_view text) {
    std::vector<std::string> out;
    std::string whole;
    for (const std::string& line : split(text, '\n')) {
        whole += without_comment(line);
        if (goes_on(whole)) continue;
        out.push_back(unescaped(whole));
        whole.clear();
    }
    if (!whole.empty()) out.push_back(unescaped(whole));
    return out;
}

/// The file of `include FILE`, in which %c stands for the cluster's name; empty for another line.
std::string included_name(const std::string& line, const std::vector<SlurmSetting>& before) {
    constexpr std::string_view word = "include";
    if (lower(line.substr(0, word.size())) != word) return {};
    size_t start = line.find_first_not_of(blanks, word.size());
    if (start == line.npos || start == word.size()) return {};
    std::string name = line.substr(start, line.find_first_of(blanks, start) - start);
    if (size_t at = name.find("%c"); at != name.npos) name.replace(at, 2, lower(slurm_value(before, "clustername")));
    return name;
}

/// Takes KEY = VALUE off the front of `rest`; false when none stands there.
bool take_setting(std::string_view& rest, SlurmSetting& out) {
    auto skip_blanks = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size())); };
    skip_blanks();
    size_t end = 0;
    auto is_of_key = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    while (end < rest.size() && is_of_key(rest[end])) ++end;
    out.key = rest.substr(0, end);
    rest.remove_prefix(end);
    skip_blanks();
    if (!rest.empty() && std::string_view("-*+/").find(rest[0]) != std::string_view::npos) rest.remove_prefix(1);
    if (out.key.empty() || !rest.starts_with('=')) return false;
    rest.remove_prefix(1);
    skip_blanks();
    size_t closing = rest.starts_with('"') ? rest.find('"', 1) : rest.npos;
    bool quoted = closing != rest.npos && (closing + 1 == rest.size() ||
                                           std::string_view(blanks).find(rest[closing + 1]) != std::string_view::npos);
    end = quoted ? closing + 1 : std::min(rest.find_first_of(blanks), rest.size());
    out.value = quoted ? rest.substr(1, closing - 1) : rest.substr(0, end);
    rest.remove_prefix(end);
    return true;
}

void add(std::vector<SlurmSetting>& out, std::string_view text, const Included& included, unsigned depth) {
    for (const std::string& line : whole_lines(text)) {
        if (std::string name = included_name(line, out); !name.empty()) {
            if (depth > 0) add(out, included(name), included, depth - 1);
            continue;
        }
        SlurmSetting one;
        for (std::string_view rest = line; take_setting(rest, one);) out.push_back(one);
    }
}

}  // namespace

std::vector<SlurmSetting> parse_slurm_conf(std::string_view text, const Included& included) {
    std::vector<SlurmSetting> out;
    add(out, text, included, include_depth);
    return out;
}

std::vector<SlurmSetting> read_slurm_conf(const std::string& file) {
    std::string folder = file.substr(0, file.rfind('/') + 1);
    return parse_slurm_conf(sys::read_file(file, conf_limit), [&](const std::string& name) {
        try {
            return sys::read_file(name.starts_with('/') ? name : folder + name, conf_limit);
        } catch (const Error&) {
            return std::string();
        }
    });
}

std::string slurm_value(const std::vector<SlurmSetting>& settings, std::string_view key) {
    std::string out;
    for (const SlurmSetting& one : settings)
        if (lower(one.key) == key) out = one.value;
    return out;
}

}  // namespace berth
