// What `enroot start` is asked for, as a start of Berth's. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/enroot/settings.hh"
#include "runtime/request/request.hh"

namespace berth::enroot {

/// The command line of `enroot start`, with what a configuration script adds.
struct StartWords {
    std::string name;  ///< of a container or a file
    std::vector<std::string> command;
    std::vector<std::string> mounts;   ///< as --mount has them
    std::vector<std::string> entries;  ///< lines of fstab
    std::vector<std::string> environment;  ///< KEY or KEY=VALUE
    std::string script;     ///< what runs in place of /etc/rc: its text
    bool has_script = false;
    bool root = false, rw = false, net = false, pid = false, ipc = false, uts = false;
};

/// The options of the start; its image or name, and the variables, are the caller's. Throws Error.
plan::Request request_of(const StartWords& words, const Settings& settings);

/// What stands before the command: Enroot starts a login shell, which reads /etc/profile, unless ENROOT_LOGIN_SHELL
/// says no.
std::vector<std::string> wrapper_of(const Settings& settings);

/// The command that runs `script` in place of the image's /etc/rc, with SHELL where the container has that program.
/// Throws Error for a script that is too long for one argument of a program.
std::vector<std::string> script_command(const std::string& script, const std::vector<std::string>& arguments);

/// Which variables of whoever starts a container get into it. With Enroot none but TERM and those of --env do; those
/// of Slurm, of its MPI launchers, of devices and of Berth do as well, which its hooks look at.
bool passes(const std::string& name);

}  // namespace berth::enroot
