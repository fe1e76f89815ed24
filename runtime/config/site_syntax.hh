// The site file's text as TOML, with what is wrong with it. Inside of this folder only, see toml.hh. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/toml.hh"

namespace berth::plan {

/// Lines that each begin with "FILE:LINE:COLUMN: ".
using Mistakes = std::vector<std::string>;

/// The TOML in `text`. Each mistake is added to `mistakes`, and what is left without its line (and without the section,
/// when that is a section's name) is looked at again. The table is empty when nothing certain can be said of the rest,
/// as behind a bracket that is left open, or after twenty mistakes.
toml::table parse_toml(std::string_view text, const std::string& name, Mistakes& mistakes);

/// Line and column, from 1, that a message about the file `name` begins with; a line of 0 when it names none.
struct Position {
    size_t line = 0, column = 1;
    auto operator<=>(const Position&) const = default;
};
Position position_of(std::string_view message, const std::string& name);

}  // namespace berth::plan
