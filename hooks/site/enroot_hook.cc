#include "hooks/site/enroot_hook.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/private_folder.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/enroot/site_files.hh"
#include "runtime/plan/mount_edit.hh"

namespace berth::hooks {

namespace {

constexpr size_t file_limit = 1 << 20;
constexpr std::string_view ending = ".enroot";

/// By which hooks mount at once: here with the lines of ENROOT_MOUNTS.
constexpr std::string_view mount_program = R"(#!/bin/sh
set -eu
while [ $# -gt 1 ]; do
    case $1 in --root|--pass) shift 2 ;; *) break ;; esac
done
for file in "$@"; do
    case $file in -) cat ;; *) cat -- "$file" ;; esac
    echo
done >> "$ENROOT_MOUNTS"
)";

/// The functions of Enroot's library that its own hooks call.
constexpr std::string_view library = R"(common::log() {
    if [ "${2-}" = - ]; then sed "s/^/[${1-}] /" >&2; elif [ -n "${2-}" ]; then echo "[${1-}] $2" >&2; fi
}
common::err() {
    echo "${1-}" >&2
    exit 1
}
common::checkcmd() {
    local program
    for program in "$@"; do
        type "$program" > /dev/null 2>&1 || common::err "the program $program is missing"
    done
}
common::realpath() { readlink -f -- "$1" || common::err "$1 is missing"; }
common::read() { read "$@" || true; }
common::getpwent() { getent passwd $(id -u); }
common::getgrent() { getent group $(id -g); }
)";

/// A folder of the hook's own, which goes with this object.
class HookFolder {
  public:
    HookFolder() : folder_(start(), "for hooks of Enroot") {
        for (const char* folder : {"rootfs", "bin", "runtime"})
            if (::mkdir((*this / folder).c_str(), 0755) != 0) throw SysError("making " + *this / folder);
        write("environ", "");
        write("mounts", "");
        write("common.sh", library);
        write("bin/enroot-mount", mount_program, 0755);
    }

    const std::string& path() const { return folder_.path(); }
    std::string operator/(std::string_view name) const { return folder_ / name; }

    void write(std::string_view name, std::string_view text, mode_t mode = 0644) const {
        std::string path = *this / name;
        Fd file = sys::open_file(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
        sys::write_all(file.get(), text, path);
    }

    std::string read(std::string_view name) const { return sys::read_file(*this / name, file_limit); }

    /// Throws Error for anything else in there: the container's files do not exist yet.
    std::vector<std::string> directories_in_rootfs(const std::string& hook) const {
        namespace fs = std::filesystem;
        std::vector<std::string> out;
        std::string rootfs = *this / "rootfs";
        std::error_code ended;
        for (fs::recursive_directory_iterator at(rootfs, ended), end; at != end; at.increment(ended)) {
            std::string path = at->path().string().substr(rootfs.size());
            if (!at->is_directory() || at->is_symlink())
                throw Error(cat("hook ", hook, ": it writes ", printable(path, 4096), " below ENROOT_ROOTFS, and "
                                "hooks run before the container has files; mount a file of the node there, by "
                                "ENROOT_MOUNTS"));
            out.push_back(path);
        }
        std::sort(out.begin(), out.end());
        return out;
    }

  private:
    static std::string start() {
        const char* parent = ::getenv("TMPDIR");
        return cat(parent && parent[0] == '/' ? parent : "/tmp", "/berth-hook");
    }

    PrivateFolder folder_;
};

std::vector<std::string> environment_for(const HookFolder& folder, const std::vector<std::string>& job) {
    const char* path = variable(job, "PATH");
    std::vector<std::string> out = {
        cat("PATH=", folder / "bin", ":", path ? path : "/usr/local/bin:/usr/bin:/bin"),
        cat("ENROOT_PID=", ::getpid()),
        "ENROOT_ROOTFS=" + folder / "rootfs",
        "ENROOT_ENVIRON=" + folder / "environ",
        "ENROOT_MOUNTS=" + folder / "mounts",
        "ENROOT_RUNTIME_PATH=" + folder / "runtime",
        "ENROOT_LIBRARY_PATH=" + folder.path(),
        "ENROOT_SYSCONF_PATH=/etc/enroot",
    };
    for (const std::string& entry : job) {
        size_t equals = entry.find('=');
        if (equals == std::string::npos || !variable(out, entry.substr(0, equals))) out.push_back(entry);
    }
    return out;
}

/// The last value of each name.
std::map<std::string, std::string> values_of(const std::string& text) {
    std::map<std::string, std::string> out;
    // Hooks' lines are taken as they are.
    auto literal = [](const std::string& name) { return cat("${", name, "}"); };
    for (const std::string& entry : enroot::variable_lines(text, literal)) {
        size_t equals = entry.find('=');
        out.insert_or_assign(entry.substr(0, equals), entry.substr(equals + 1));
    }
    return out;
}

}  // namespace

bool is_enroot_hook(const std::string& name) { return name.ends_with(ending); }

std::string enroot_environ(const std::vector<std::string>& image_variables) {
    std::string out;
    // A value of several lines would be several variables.
    for (const std::string& entry : image_variables)
        if (entry.find('\n') == std::string::npos) out += entry + "\n";
    return out;
}

plan::ContainerEdits enroot_hook_edits(const std::string& before, const EnrootHookFiles& left, const plan::Site& site,
                                       const plan::Origin& origin) {
    plan::ContainerEdits out;
    std::map<std::string, std::string> old = values_of(before), now = values_of(left.environ);
    for (const auto& [name, value] : now)
        if (!old.contains(name) || old[name] != value) out.environment.push_back(cat(name, "=", value));
    for (const auto& [name, value] : old)
        if (!now.contains(name))
            throw Error(cat(origin, ": it takes ", printable(name), " out of ENROOT_ENVIRON, and hooks can only add "
                            "and change variables"));
    plan::EditList edits(out.edits);
    for (const std::string& path : left.directories) edits.add(plan::Directory{path, 0755}, origin, "asked for");
    auto literal = [](const std::string& name) { return cat("${", name, "}"); };
    for (const enroot::FstabLine& line : enroot::mount_lines(left.mounts, literal)) {
        if (!line.left_out.empty())
            throw Error(cat(origin, ": line ", line.number, " of its ENROOT_MOUNTS: ", line.left_out));
        plan::add_mount(edits, line.mount, "/", site, origin);
    }
    return out;
}

EnrootHookFiles run_enroot_hook(const std::string& path, const std::vector<std::string>& image_variables,
                                const std::vector<std::string>& job, const RunHook& run) {
    HookFolder folder;
    folder.write("environ", enroot_environ(image_variables));
    run(path, environment_for(folder, job));
    return {folder.read("environ"), folder.read("mounts"), folder.directories_in_rootfs(path)};
}

}  // namespace berth::hooks
