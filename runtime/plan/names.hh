// Grammars of the small words a user gives: container names, environment variable names, absolute paths. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// Throws Error unless `name` is [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}.
void check_container_name(std::string_view name);

/// NAME[,NAME...] of --container-env; each name is [A-Za-z_][A-Za-z0-9_]*. Throws Error with a caret.
std::vector<std::string> parse_env_names(std::string_view text);

/// The value of --container-workdir: an absolute path without NUL, not under /proc/self/fd or /proc/N. Throws Error with a caret.
std::string parse_workdir(std::string_view text);

/// 1/true/yes/y/on and 0/false/no/n/off, any case; throws Error naming `setting` for anything else.
bool parse_bool(std::string_view text, std::string_view setting);

}  // namespace berth::plan
