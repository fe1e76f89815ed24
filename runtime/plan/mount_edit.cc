#include "runtime/plan/mount_edit.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/values.hh"

namespace berth::plan {

namespace {

std::string absolute_source(const MountRequest& wanted, const std::string& from) {
    bool absolute = wanted.source.empty() || wanted.source[0] == '/';
    return absolute ? wanted.source : path_from(from, wanted.source);
}

}  // namespace

MountRequest with_absolute_source(MountRequest wanted, const Caller& caller) {
    wanted.source = with_home(wanted.source, caller.home);
    wanted.source = absolute_source(wanted, caller.cwd);
    return wanted;
}

std::string mount_key(const MountRequest& mount) {
    std::string source = mount.source.empty() ? "" : normalised(mount.source);
    std::string out = cat(static_cast<int>(mount.kind), ' ', mount.read_only, ' ', mount.no_exec, ' ', mount.optional,
                          ' ', mount.recursive, ' ', static_cast<int>(mount.create), ' ',
                          mount.propagation ? static_cast<int>(*mount.propagation) : -1, ' ', source.size(), ' ',
                          source, ' ', mount.target.empty() ? source : mount.target);
    for (const auto& [name, value] : mount.options) out += cat(' ', name, '=', value);
    return out;
}

void add_mount(EditList& edits, const MountRequest& wanted, const std::string& from, const Site& site,
               const Origin& origin) {
    std::string source = absolute_source(wanted, from);
    std::string target = wanted.target.empty() ? normalised(source) : wanted.target;
    if (std::string why = forbidden_target(target); !why.empty()) {
        const std::string& whose = origin.text();
        throw Error(cat(whose.starts_with("option ") ? whose.substr(7) : whose, ": ", printable(target, 4096), ": ",
                        why));
    }
    if (wanted.kind == MountRequest::Kind::umount) return edits.add(Unmount{target}, origin, "asked for");
    bool bind = wanted.kind == MountRequest::Kind::bind, squashfs = wanted.kind == MountRequest::Kind::squashfs;
    Mount& mount = bind       ? edits.bind(source, target, origin, "asked for")
                   : squashfs ? edits.squashfs(source, target, origin, "asked for")
                              : edits.tmpfs(target, 01777, origin, "asked for");
    mount.read_only = wanted.read_only || squashfs;
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
