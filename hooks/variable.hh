// Variables of an image and of a job.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::hooks {

/// The value of NAME in NAME=VALUE strings, the first as for getenv; nullptr for none.
const char* variable(const std::vector<std::string>& environment, std::string_view name);

}  // namespace berth::hooks
