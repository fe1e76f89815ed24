#include "runtime/enroot/settings.hh"

#include <algorithm>
#include <string_view>

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::enroot {

namespace {

constexpr std::string_view prefix = "ENROOT_";

struct Switch {
    const char* name;
    bool Settings::*value;
};
constexpr Switch switches[] = {
    {"ENROOT_REMAP_ROOT", &Settings::remap_root},       {"ENROOT_ROOTFS_WRITABLE", &Settings::writable},
    {"ENROOT_LOGIN_SHELL", &Settings::login_shell},     {"ENROOT_FORCE_OVERRIDE", &Settings::force},
    {"ENROOT_ALLOW_HTTP", &Settings::allow_http},       {"ENROOT_UNSHARE_NET", &Settings::net},
    {"ENROOT_UNSHARE_PID", &Settings::pid},             {"ENROOT_UNSHARE_IPC", &Settings::ipc},
    {"ENROOT_UNSHARE_UTS", &Settings::uts}};

/// What else has an effect: ENROOT_CONFIG_PATH/.credentials are logins for berth-pull, and ENROOT_PASSWORD is what a
/// password in there is by custom.
constexpr std::string_view known[] = {"ENROOT_MOUNT_HOME", "ENROOT_DATA_PATH", "ENROOT_ROOTFS",
                                      "ENROOT_CONFIG_PATH", "ENROOT_PASSWORD"};
constexpr std::string_view known_in_steps[] = {"ENROOT_REMAP_ROOT", "ENROOT_ROOTFS_WRITABLE", "ENROOT_MOUNT_HOME",
                                               "ENROOT_CONFIG_PATH", "ENROOT_PASSWORD"};

bool yes_or_no(const std::string& value, const std::string& name) {
    // Enroot's own short word, which no other setting has.
    return lower(value) != "f" && plan::parse_bool(value, name);
}

template <typename Known>
std::string names_but(const std::vector<std::string>& environment, Known is_known) {
    std::vector<std::string> names;
    for (const std::string& text : environment) {
        size_t equals = text.find('=');
        if (!text.starts_with(prefix) || equals == text.npos || equals + 1 == text.size()) continue;
        if (std::string name = text.substr(0, equals); !is_known(name)) names.push_back(printable(name));
    }
    std::sort(names.begin(), names.end());
    std::string out;
    for (const std::string& name : names) out += cat(out.empty() ? "" : ", ", name);
    return out;
}

}  // namespace

Settings settings_of(const std::vector<std::string>& environment) {
    Settings out;
    for (const Switch& one : switches)
        if (std::string value = value_in(environment, one.name); !value.empty())
            out.*one.value = yes_or_no(value, one.name);
    if (std::string value = value_in(environment, "ENROOT_MOUNT_HOME"); !value.empty())
        out.mount_home = yes_or_no(value, "ENROOT_MOUNT_HOME");
    out.data_path = value_in(environment, "ENROOT_DATA_PATH");
    out.rootfs = value_in(environment, "ENROOT_ROOTFS");
    return out;
}

std::string passed_over_note(const std::vector<std::string>& environment) {
    std::string names = names_but(environment, [](const std::string& name) {
        return std::any_of(std::begin(switches), std::end(switches),
                           [&](const Switch& one) { return name == one.name; }) ||
               std::find(std::begin(known), std::end(known), name) != std::end(known);
    });
    return names.empty() ? "" : cat("without an effect in Berth: ", names, "; see enroot(1), ENVIRONMENT");
}

std::string passed_over_in_step_note(const std::vector<std::string>& environment, bool by_data_path) {
    std::string names = names_but(environment, [&](const std::string& name) {
        if (by_data_path && name == "ENROOT_DATA_PATH") return true;
        return std::find(std::begin(known_in_steps), std::end(known_in_steps), name) != std::end(known_in_steps);
    });
    if (names.empty()) return {};
    // Mostly a path for each job, so that each has containers of its own.
    const char* hint = by_data_path || value_in(environment, "ENROOT_DATA_PATH").empty()
                           ? ""
                           : "; --container-name=NAME-%j names a container of the job's own";
    return cat("variables of Enroot without an effect in a step: ", names, hint);
}

}  // namespace berth::enroot
