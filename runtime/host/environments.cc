#include "runtime/host/environments.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/request/names.hh"
#include "runtime/request/values.hh"

namespace berth {

namespace {

constexpr std::string_view suffix = ".toml";

/// The text of a regular file; anything else is not opened: to open a device may do something, and a pipe has no end.
std::string text_of(const std::string& name, const std::string& path) {
    std::string what = cat("the environment ", printable(name, 1024));
    if (path != name) what += cat(" (", printable(path, 4096), ")");
    struct stat st {};
    Fd file;
    if (::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode))
        file = sys::try_open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    else if (st.st_mode != 0)
        throw Error(cat("reading ", what, ": it is no regular file"));
    if (!file) throw SysError("reading " + what);
    if (!S_ISREG(sys::stat_of(file.get(), path).st_mode))
        throw Error(cat("reading ", what, ": it is no regular file"));
    return sys::read_all(file.get(), plan::environment_file_limit, what);
}

bool exists(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0;
}

/// The home is HOME of `environment`, or the account's.
std::string home_of(const plan::Caller& caller, const std::vector<std::string>& environment) {
    std::string home = value_in(environment, "HOME");
    return home.starts_with('/') ? home : caller.home;
}

/// Where the caller is; empty for a folder that is no longer there.
std::string current_folder() {
    char path[PATH_MAX];
    return ::getcwd(path, sizeof path) != nullptr && path[0] == '/' ? path : std::string();
}

plan::FoundEnvironment find(const std::string& name, const std::vector<std::string>& folders,
                            const std::string& home) {
    if (plan::is_environment_path(name)) {
        std::string path = plan::with_home(name, home);
        return {path, text_of(name, path)};
    }
    for (const std::string& folder : folders)
        if (std::string path = cat(folder, "/", name, suffix); exists(path)) return {path, text_of(name, path)};
    std::string where;
    for (const std::string& folder : folders) where += cat(where.empty() ? "" : ", ", printable(folder, 1024));
    throw Error(cat("the environment ", printable(name, 1024), ": there is no ", printable(name, 1024), suffix, " in ",
                    where.empty() ? "any folder" : where, "; see berth environment list, or write a path as ./",
                    printable(name, 1024), suffix));
}

}  // namespace

std::vector<std::string> environment_folders(const plan::Site& site, const plan::Caller& caller,
                                             const std::vector<std::string>& environment) {
    std::vector<std::string> out;
    std::string home = home_of(caller, environment);
    std::string config = value_in(environment, "XDG_CONFIG_HOME");
    if (!config.starts_with('/')) config = home.empty() ? "" : home + "/.config";
    if (!config.empty()) out.push_back(config + "/berth/environments");
    std::string path = value_in(environment, "EDF_PATH");
    if (path.empty() && !home.empty()) path = home + "/.edf";
    for (const std::string& folder : split(path, ':'))
        if (folder.starts_with('/')) out.push_back(folder);
    if (!site.site.environments.empty()) out.push_back(plan::path_for(site.site.environments, caller));
    return out;
}

plan::ResolvedEnvironment read_environment(const std::string& name, const plan::Site& site, const plan::Caller& caller,
                                           const std::vector<std::string>& environment) {
    std::vector<std::string> folders = environment_folders(site, caller, environment);
    return plan::resolve_environment(
        name, [&](const std::string& wanted) { return find(wanted, folders, home_of(caller, environment)); },
        [&](const std::string& variable_name) -> std::optional<std::string> {
            const char* value = variable(environment, variable_name);
            return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
        },
        current_folder());
}

std::vector<ListedEnvironment> list_environments(const std::vector<std::string>& folders) {
    std::vector<ListedEnvironment> out;
    for (const std::string& folder : folders) {
        std::vector<std::string> names;
        try {
            Fd directory = sys::open_if_exists(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
            if (directory) names = sys::list_directory(directory.get(), folder);
        } catch (const SysError&) {
            continue;
        }
        size_t before = out.size();
        for (const std::string& file : names) {
            if (!file.ends_with(suffix) || file.size() == suffix.size()) continue;
            std::string name = file.substr(0, file.size() - suffix.size());
            bool hidden = std::any_of(out.begin(), out.begin() + static_cast<ptrdiff_t>(before),
                                      [&](const ListedEnvironment& one) { return one.name == name; });
            out.push_back({name, cat(folder, "/", file), hidden});
        }
    }
    return out;
}

}  // namespace berth
