#include "runtime/config/toml_entries.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_syntax.hh"

namespace berth::plan {

namespace {

constexpr size_t most_parts = 100;

/// Nothing for what is no text, truth value or whole number.
std::string scalar_text(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
    if (const auto* number = node.as_integer()) return cat(number->get());
    return {};
}

void add(std::vector<TomlEntry>& out, std::vector<std::string>& path, const toml::node& node);

void add_members(std::vector<TomlEntry>& out, std::vector<std::string>& path, const toml::table& table) {
    for (const auto& [key, value] : table) {
        path.emplace_back(key.str());
        add(out, path, value);
        path.pop_back();
    }
}

void add(std::vector<TomlEntry>& out, std::vector<std::string>& path, const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table && !table->empty()) return add_members(out, path, *table);
    TomlEntry entry{path, {}, node.source().begin.line};
    const toml::array* list = node.as_array();
    for (size_t i = 0; list && i < list->size(); ++i) {
        const toml::node& element = *list->get(i);
        if (!element.is_table()) {
            entry.values.push_back(scalar_text(element));
            continue;
        }
        path.push_back(std::to_string(i));
        add(out, path, element);
        path.pop_back();
    }
    bool of_tables = list && !list->empty() && entry.values.empty();
    if (!list && !table) entry.values.push_back(scalar_text(node));
    if (!of_tables) out.push_back(std::move(entry));
}

}  // namespace

void check_toml_depth(std::string_view text, const std::string& name) {
    size_t dots = 0;
    for (char c : text) {
        bool of_key = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      c == '-' || c == ' ' || c == '\t' || c == '"' || c == '\'';
        if (c == '.' ? ++dots > most_parts : false)
            throw Error(cat(name, ": a key of more than ", most_parts, " parts"));
        if (c != '.' && !of_key) dots = 0;
    }
}

std::vector<TomlEntry> toml_entries(std::string_view text, const std::string& name) {
    check_toml_depth(text, name);
    Mistakes mistakes;
    toml::table file = parse_toml(text, name, mistakes);
    if (!mistakes.empty()) throw Error(mistakes.front());
    std::vector<TomlEntry> out;
    std::vector<std::string> path;
    add_members(out, path, file);
    std::ranges::stable_sort(out, {}, &TomlEntry::line);
    return out;
}

}  // namespace berth::plan
