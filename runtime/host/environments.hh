// Where environment files (--container-environment) lie, and reading them as the user who calls.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/environment_file.hh"
#include "runtime/config/site.hh"
#include "runtime/request/request.hh"

namespace berth {

/// The folders in which a NAME is looked for, in this order: the user's ($XDG_CONFIG_HOME/berth/environments, or
/// ~/.config/berth/environments), those of EDF_PATH (or ~/.edf), and the site's. The home is HOME of `environment`, or
/// the account's.
std::vector<std::string> environment_folders(const plan::Site& site, const plan::Caller& caller,
                                             const std::vector<std::string>& environment);

/// Reads NAME|FILE with all that it is based on; ${VAR} is a variable of `environment`. Throws Error.
plan::ResolvedEnvironment read_environment(const std::string& name, const plan::Site& site, const plan::Caller& caller,
                                           const std::vector<std::string>& environment);

/// An environment in a folder, for a list.
struct ListedEnvironment {
    std::string name, path;
    bool hidden = false;  ///< one of that name is in a folder before
};

/// Those that a NAME without a slash finds; a folder that is missing or cannot be read has none.
std::vector<ListedEnvironment> list_environments(const std::vector<std::string>& folders);

}  // namespace berth
