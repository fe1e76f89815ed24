// Lines of environ.d and mounts.d, and the programs of hooks.d: what becomes of each. Pure.
#pragma once
#include <string>

#include "runtime/migrate/draft.hh"
#include "runtime/migrate/lines.hh"

namespace berth::migrate {

/// Whose folder it is. What users have for themselves has no place in berth.conf: it is told how they say it.
enum class Owner { site, user };

/// A line of environ.d/*.env.
void decide_variable(Draft& draft, const Setting& setting, const std::string& file, Owner owner);

/// A line of mounts.d/*.fstab.
void decide_mount(Draft& draft, const FstabLine& line, const std::string& file, Owner owner);

/// A file of hooks.d.
struct HookFile {
    std::string path;
    bool executable = false;
    std::string text = {};  ///< empty for one that is too large
};

/// Enroot runs those that end in .sh and are executable. One that a site has written becomes a program of hooks.folder,
/// where it can.
void decide_hook(Draft& draft, const HookFile& file, Owner owner);

/// A line of .credentials.
void decide_login(Draft& draft, const Login& login, const std::string& file);

}  // namespace berth::migrate
