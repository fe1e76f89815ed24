#include "runtime/plan/mount_edit.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::plan {

void add_mount(EditList& edits, const MountRequest& wanted, const std::string& from, const Site& site,
               const Origin& origin) {
    bool absolute = wanted.source.empty() || wanted.source[0] == '/';
    std::string source = absolute ? wanted.source : cat(from, "/", wanted.source);
    std::string target = wanted.target.empty() ? normalised(source) : wanted.target;
    if (std::string why = forbidden_target(target); !why.empty()) {
        const std::string& whose = origin.text();
        throw Error(cat(whose.starts_with("option ") ? whose.substr(7) : whose, ": ", printable(target, 4096), ": ",
                        why));
    }
    if (wanted.kind == MountRequest::Kind::umount) return edits.add(Unmount{target}, origin, "asked for");
    bool bind = wanted.kind == MountRequest::Kind::bind;
    Mount& mount = bind ? edits.bind(source, target, origin, "asked for")
                        : edits.tmpfs(target, 01777, origin, "asked for");
    mount.read_only = wanted.read_only;
    mount.no_exec = wanted.no_exec;
    mount.optional = wanted.optional;
    mount.recursive = wanted.recursive;
    mount.propagation =
        wanted.propagation.value_or(bind ? site.defaults.mount_propagation : Propagation::isolated);
    mount.keeps_devices = bind;
    mount.options = wanted.options;
    if (wanted.create != CreateTarget::automatic) mount.create = wanted.create;
}

}  // namespace berth::plan
