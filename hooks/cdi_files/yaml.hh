// YAML as JSON, for CDI specifications.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace berth::hooks {

/// Numbers and words stay texts but for plain integers, true, false and null. Refuses aliases, tags of its own,
/// duplicate keys and more than a million nodes. Throws Error naming `what`.
nlohmann::json json_of_yaml(std::string_view text, const std::string& what);

}  // namespace berth::hooks
