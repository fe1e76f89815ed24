// The variables by which Enroot is steered, and which of them mean something here. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace berth::enroot {

/// What ENROOT_* say; where nothing is said, what Enroot does by default.
struct Settings {
    bool remap_root = false;
    bool writable = false;
    bool login_shell = true;
    bool force = false;       ///< ENROOT_FORCE_OVERRIDE: replace what is there
    bool allow_http = false;  ///< registries without TLS
    std::optional<bool> mount_home;
    bool net = false, pid = false, ipc = false, uts = false;  ///< namespaces of the container's own
    std::string data_path;  ///< the scope of the names of containers: see data_path.hh
    std::string rootfs;     ///< of a file for `enroot batch`
};

/// Reads `environment` (NAME=VALUE); an empty value is as good as none. Throws Error that names the variable for a
/// value that says neither yes nor no.
Settings settings_of(const std::vector<std::string>& environment);

/// One line that names the variables of `environment` which the program `enroot` passes over; empty for none.
std::string passed_over_note(const std::vector<std::string>& environment);

/// The same for a step of srun; `by_data_path`: where ENROOT_DATA_PATH chooses the names that it sees.
std::string passed_over_in_step_note(const std::vector<std::string>& environment, bool by_data_path = false);

}  // namespace berth::enroot
