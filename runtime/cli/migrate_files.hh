// The files with settings of Enroot and Pyxis, and of others about registries, as `berth migrate` finds them.
#pragma once
#include <string>
#include <vector>

#include "runtime/migrate/migrate.hh"

namespace berth::cli {

/// Where to look.
struct MigrationSource {
    std::string enroot = "/etc/enroot";  ///< has enroot.conf and its folders, each of which may be missing
    std::string plugstack;               ///< empty: Slurm's plugstack.conf, if there is one
    std::vector<std::string> users = {};      ///< folders like ~/.config/enroot
    std::string registries = "/etc";  ///< has containers/, docker/ and containerd/, each of which may be missing
};

/// Throws SysError naming the folder that is not there or the file that cannot be read.
migrate::Configuration read_settings(const MigrationSource& from);

}  // namespace berth::cli
