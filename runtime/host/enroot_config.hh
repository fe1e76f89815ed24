// The folder of a site's Enroot (site.enroot_config), read at each start: what its files say joins the site's settings.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/site.hh"

namespace berth {

/// Reads environ.d/*.env and mounts.d/*.fstab of the folder, in the order of their names, with ${NAME} out of
/// `environment`, and adds to `site`: variables before those of site.environment, which count more, and mounts. A
/// folder that is not there has nothing. Returns a line for each thing that is left out: files that others than root
/// can write to, and mounts that a container cannot have. Throws Error for a file that cannot be read.
std::vector<std::string> add_enroot_config(plan::Site& site, const std::vector<std::string>& environment);

}  // namespace berth
