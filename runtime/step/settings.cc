#include "runtime/step/settings.hh"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "runtime/host/facts.hh"

namespace berth {

std::vector<std::pair<std::string, std::string>> step_settings(const std::vector<std::string>& environment) {
    static constexpr std::array<std::string_view, 7> names = {
        "REGISTRY_AUTH_FILE", "DOCKER_CONFIG",   "ENROOT_CONFIG_PATH", "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",     "XDG_RUNTIME_DIR", "DOCKER_HOST"};
    // The last three are for credential programs of clouds, which the pull program runs.
    static constexpr std::array<std::string_view, 4> prefixes = {"BERTH_", "AWS_", "GOOGLE_", "AZURE_"};
    std::vector<std::pair<std::string, std::string>> out;
    for (const std::string& entry : environment) {
        size_t equals = entry.find('=');
        if (equals == std::string::npos) continue;
        std::string name = entry.substr(0, equals);
        auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
        bool setting = std::any_of(prefixes.begin(), prefixes.end(), starts) ||
                       std::find(names.begin(), names.end(), name) != names.end();
        bool known = std::any_of(out.begin(), out.end(), [&](const auto& other) { return other.first == name; });
        if (setting && !known) out.emplace_back(name, entry.substr(equals + 1));
    }
    return out;
}

void apply_step_settings(const std::vector<std::string>& environment) {
    for (const auto& [name, value] : step_settings(environment)) setenv(name.c_str(), value.c_str(), 1);
    std::string home = caller_of_this_process().home;
    if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

}  // namespace berth
