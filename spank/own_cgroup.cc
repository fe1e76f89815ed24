#include "spank/own_cgroup.hh"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/cgroup.hh"

namespace berth::spank {

namespace {

constexpr size_t cgroup_file_limit = 64 << 10;

/// A container without this folder, or whose image or user has put a link there, is left as it is.
void mount_anew(const Hierarchy& hierarchy) {
    std::string path = cat(cgroup_folder, hierarchy.folder);
    try {
        Fd root = sys::open_file("/", O_PATH | O_DIRECTORY);
        Fd target = sys::open_in_root(root.get(), path, O_PATH | O_DIRECTORY);
        std::vector<sys::MountOption> options = {{"source", hierarchy.type}};
        for (const std::string& name : split(hierarchy.options, ','))
            if (size_t equals = name.find('='); equals != name.npos)
                options.push_back({name.substr(0, equals), name.substr(equals + 1)});
            else if (!name.empty())
                options.push_back({name, "", true});
        Fd made = sys::new_mount(hierarchy.type, options,
                                 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
        sys::move_mount_to(made.get(), target.get(), path);
    } catch (const SysError&) {
        return;
    }
}

void leave(int type, const char* name) {
    if (int number = sys::unshare(type); number != 0)
        throw SysError(cat("giving the task a ", name, " namespace of its own (defaults.unshare)"), number);
}

}  // namespace

std::vector<Hierarchy> hierarchies_of(std::string_view cgroups, bool version_2_alone) {
    if (version_2_alone) return {{"cgroup2", "", ""}};
    std::vector<Hierarchy> out;
    for (const std::string& line : split(cgroups, '\n')) {
        std::vector<std::string> fields = split(line, ':');
        if (fields.size() < 3) continue;
        const std::string& names = fields[1];
        if (names.find('/') != names.npos) continue;
        if (names.empty())
            out.push_back({"cgroup2", "", "/unified"});
        else
            out.push_back({"cgroup", names, cat("/", names.starts_with("name=") ? names.substr(5) : names)});
    }
    return out;
}

void enter_own_cgroup() {
    bool version_2_alone = sys::may_access(cat(cgroup_folder, "/cgroup.controllers"), F_OK);
    std::string cgroups = sys::read_file("/proc/self/cgroup", cgroup_file_limit);
    leave(CLONE_NEWCGROUP, "cgroup");
    // The tasks of a step share the container's mounts, and each has another cgroup.
    leave(CLONE_NEWNS, "mount");
    for (const Hierarchy& hierarchy : hierarchies_of(cgroups, version_2_alone)) mount_anew(hierarchy);
}

}  // namespace berth::spank
