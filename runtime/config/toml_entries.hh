// Files in TOML that other programs have for their settings, as a list of what they set. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// A value, by its names from the outside in; elements of a list of tables are numbered from 0.
struct TomlEntry {
    std::vector<std::string> path;    ///< {"registry", "0", "location"}
    std::vector<std::string> values;  ///< of a list all; "true", "false" and numbers as texts
    size_t line = 0;                  ///< from 1
    bool operator==(const TomlEntry&) const = default;
};

/// In the order of the lines. A table without anything in it is an entry without values. Throws Error naming `name` and
/// the line for what is no TOML.
std::vector<TomlEntry> toml_entries(std::string_view text, const std::string& name);

/// The library's tables of a key with dots are one in the other, and it goes through them by recursion: throws Error
/// naming `name` for one of very many parts.
void check_toml_depth(std::string_view text, const std::string& name);

}  // namespace berth::plan
