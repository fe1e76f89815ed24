// Environments, as lists of NAME=VALUE.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// The value of NAME, of the first one as for getenv(); null for none. It lives as long as the list.
const char* variable(const std::vector<std::string>& environment, std::string_view name);

/// The same; empty for none.
std::string value_in(const std::vector<std::string>& environment, std::string_view name);

std::vector<std::string> environment_of_this_process();

}  // namespace berth
