// What of a step's environment is a setting of berth: the only way by which a job steers its helper.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace berth {

/// The documented settings among NAME=VALUE strings: BERTH_*, where credentials, the user's folders and the daemons'
/// sockets are, and what credential programs of clouds read (AWS_*, GOOGLE_*, AZURE_*). Everything else (LD_*, PATH,
/// proxies) stays with the tasks. Of a name given twice the first counts, as for getenv.
std::vector<std::pair<std::string, std::string>> step_settings(const std::vector<std::string>& environment);

/// Puts the settings and the caller's HOME into this process's environment, for the pull program.
void apply_step_settings(const std::vector<std::string>& environment);

}  // namespace berth
