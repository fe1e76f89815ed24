// JSON from outside, read strictly: what two readers could understand in two ways is refused.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::oci {

inline constexpr unsigned json_depth_limit = 64;

/// Refuses duplicate keys, bad UTF-8, anything after the value, and nesting deeper than json_depth_limit (found by a
/// scan before parsing, so that depth never becomes recursion). Throws Error naming `what`.
nlohmann::json parse_json(std::string_view text, const std::string& what);

/// Members of an object. An absent or null member gives nothing, or an empty list. Throws Error naming `what` and the
/// member when the type is another one, or when a string holds a NUL byte (no path, name or variable can).
std::optional<std::string> string_member(const nlohmann::json& object, const char* name, const std::string& what);
std::vector<std::string> strings_member(const nlohmann::json& object, const char* name, const std::string& what);
/// The member itself, or null when it is absent; throws Error unless it is an object (array) or null.
const nlohmann::json* object_member(const nlohmann::json& object, const char* name, const std::string& what);
const nlohmann::json* array_member(const nlohmann::json& object, const char* name, const std::string& what);

}  // namespace berth::oci
