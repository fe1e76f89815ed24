// The files of Enroot and Pyxis as lines with settings. Pure: text in, values out; every text is taken.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::migrate {

/// A name with its value, as written.
struct Setting {
    size_t line = 0;    ///< from 1
    std::string name;   ///< empty for a line that is none
    std::string value;  ///< or the whole line
    bool operator==(const Setting&) const = default;
};

/// Lines of enroot.conf: NAME VALUE or NAME=VALUE, without blanks and comments around them (enroot.in of Enroot 4.1.2,
/// config::load). What bash does to a value is left to value.hh. Lines that are empty or comments are left out.
std::vector<Setting> parse_enroot_conf(std::string_view text);

/// Lines of environ.d/*.env: NAME=VALUE, without the quotes around the value (src/common.sh, common::envfmt).
std::vector<Setting> parse_environ(std::string_view text);

/// A line of mounts.d/*.fstab.
struct FstabLine {
    size_t line = 0;
    std::string text;  ///< the line, with single blanks
    std::string source, target, type;  ///< a target is missing where a line has one word
    std::vector<std::string> options;
    bool operator==(const FstabLine&) const = default;
};

/// Type and options may be left out, and \040 stands for a blank (bin/enroot-mount.c).
std::vector<FstabLine> parse_fstab(std::string_view text);

/// What plugstack.conf has.
struct Plugstack {
    struct Plugin {
        size_t line = 0;
        std::string path;
        std::vector<std::string> words;  ///< behind it
        bool operator==(const Plugin&) const = default;
    };
    std::vector<Plugin> plugins;
    std::vector<std::string> includes;  ///< patterns, as written
};
Plugstack parse_plugstack(std::string_view text);

/// A line of .credentials.
struct Login {
    size_t line = 0;
    std::string machine;
    bool computed = false;  ///< the password is for a shell: $(command)
    bool operator==(const Login&) const = default;
};

/// Passwords are passed over (src/common.sh, common::evalnetrc).
std::vector<Login> parse_credentials(std::string_view text);

}  // namespace berth::migrate
