#include "runtime/enroot/start.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/pages.hh"
#include "runtime/base/text.hh"
#include "runtime/enroot/mounts.hh"
#include "runtime/request/options.hh"

namespace berth::enroot {

namespace {

/// Of one argument, without the end of the string.
size_t script_limit() { return longest_string() - 1; }

/// Reads what a login shell reads, then becomes the command.
constexpr const char* as_login = "if [ -r /etc/profile ]; then . /etc/profile; fi; exec \"$@\"";

/// $1 is the script; what follows are its name and its arguments.
constexpr const char* by_shell = "[ -x \"${SHELL-}\" ] || SHELL=/bin/sh; exec \"$SHELL\" -c \"$@\"";

constexpr std::string_view names[] = {"TERM", "HOME", "USER", "LOGNAME", "SHELL", "PATH"};
constexpr std::string_view prefixes[] = {"SLURM_", "SPANK_", "PMI_",      "PMI2_",     "PMIX_",
                                         "OMPI_",  "UCX_",   "NVIDIA_",   "MELLANOX_", "BERTH_"};

void add_mount(plan::Request& request, const std::string& text) {
    if (text.empty()) return;
    std::vector<plan::MountRequest> mounts = plan::parse_mounts(text);
    request.mounts.insert(request.mounts.end(), mounts.begin(), mounts.end());
    request.mount_texts.push_back(text);
}

}  // namespace

plan::Request request_of(const StartWords& words, const Settings& settings) {
    plan::Request out;
    // In this order: what the command line says comes last, and wins.
    for (const std::string& line : words.entries) add_mount(out, mount_of_line(line));
    for (const std::string& text : words.mounts) add_mount(out, mount_of_words(text));
    out.remap_root = words.root || settings.remap_root;
    out.writable = words.rw || settings.writable;
    out.mount_home = settings.mount_home;
    out.entrypoint = !words.has_script;
    out.unshare = {.ipc = words.ipc || settings.ipc,
                   .net = words.net || settings.net,
                   .uts = words.uts || settings.uts,
                   .pid = words.pid || settings.pid};
    return out;
}

std::vector<std::string> wrapper_of(const Settings& settings) {
    if (!settings.login_shell) return {};
    return {"/bin/sh", "-c", as_login, "sh"};
}

std::vector<std::string> script_command(const std::string& script, const std::vector<std::string>& arguments) {
    if (script.size() > script_limit())
        throw Error(cat("--rc: the script has ", script.size(), " bytes, more than ", script_limit(),
                        "; mount it, and write its path as the command"),
                    1);
    if (script.find('\0') != script.npos)
        throw Error("--rc: the script has a zero byte in it; a shell's script is text", 1);
    std::vector<std::string> out{"/bin/sh", "-c", by_shell, "sh", script, "rc"};
    out.insert(out.end(), arguments.begin(), arguments.end());
    return out;
}

bool passes(const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names) ||
           std::any_of(std::begin(prefixes), std::end(prefixes),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace berth::enroot
