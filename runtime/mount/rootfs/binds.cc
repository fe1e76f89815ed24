#include "runtime/mount/rootfs/binds.hh"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

namespace {

uint64_t flags_of(const plan::Mount& mount, bool devices) {
    uint64_t flags = MOUNT_ATTR_NOSUID;
    if (!devices) flags |= MOUNT_ATTR_NODEV;
    if (mount.read_only) flags |= MOUNT_ATTR_RDONLY;
    if (mount.no_exec) flags |= MOUNT_ATTR_NOEXEC;
    return flags;
}

uint64_t propagation_of(const plan::Mount& mount) {
    switch (mount.propagation) {
        case plan::Propagation::slave:
            return MS_SLAVE;
        case plan::Propagation::shared:
            return MS_SHARED;
        case plan::Propagation::unbindable:
            return MS_UNBINDABLE;
        case plan::Propagation::isolated:
            break;
    }
    return MS_PRIVATE;
}

/// What is done to which mount, put into words only for an error: most of a start is mounts.
struct Doing {
    const plan::Mount& mount;
    const plan::Origin& origin;
    std::string text() const { return described(mount, origin); }
};

/// A device is no directory, or one in /dev; nor is what is to lie on a file.
bool is_hardly_a_directory(const plan::Mount& mount) {
    return mount.device || mount.create == plan::Mount::Create::file;
}

/// O_DIRECTORY first: it makes an automounter mount what a plain O_PATH leaves alone.
Fd open_source(const Doing& doing) {
    const plan::Mount& mount = doing.mount;
    bool no_directory = is_hardly_a_directory(mount);
    Fd source = sys::try_open_at(AT_FDCWD, mount.source, O_PATH | (no_directory ? 0 : O_DIRECTORY));
    if (!source && errno == ENOTDIR) source = sys::try_open_at(AT_FDCWD, mount.source, O_PATH);
    if (source || (mount.optional && (errno == ENOENT || errno == ENOTDIR))) return source;
    int number = errno;
    if (number == ENOENT || number == ENOTDIR)
        throw Error(cat(doing.text(), ": the source path does not exist on this node"));
    throw SysError(cat(doing.text(), ": opening the source"), number);
}

bool is_device(mode_t mode) { return S_ISCHR(mode) || S_ISBLK(mode); }

void check_device(int source, const struct stat& st, const Doing& doing) {
    if (is_device(st.st_mode)) return;
    struct statfs fs {};
    bool terminals = S_ISDIR(st.st_mode) && ::fstatfs(source, &fs) == 0 && fs.f_type == DEVPTS_SUPER_MAGIC;
    if (!terminals) throw Error(cat(doing.text(), ": the source is no device"));
}

/// For reading or for writing; else errno says why not: EPERM is the device cgroup's word.
bool may_open_device(const std::string& path) {
    return ::access(path.c_str(), R_OK) == 0 || ::access(path.c_str(), W_OK) == 0;
}

[[noreturn]] void refuse_device(const Doing& doing, int number, const struct stat& st) {
    if (number == EPERM)
        throw Error(cat(doing.text(), ": the job may not open this device; ask Slurm for it, as with --gres"));
    char mode[8];
    snprintf(mode, sizeof mode, "%04o", st.st_mode & 07777U);
    // Its owner has no number in the container's user namespace.
    throw Error(cat(doing.text(), ": you may not open this device (mode ", mode,
                    "): an administrator can change that, by a rule of udev or a group"));
}

/// A folder with devices of which none may be opened is of no use either.
void check_folder_of_devices(const Doing& doing, int folder) {
    std::optional<std::pair<int, struct stat>> refused;
    for (const std::string& name : sys::list_directory(folder, doing.mount.source)) {
        struct stat st {};
        if (::fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !is_device(st.st_mode)) continue;
        if (may_open_device(cat("/proc/self/fd/", folder, "/", name))) return;
        refused = {errno, st};
    }
    if (refused) refuse_device(doing, refused->first, refused->second);
}

/// Whether devices work in what the user has named as `source`, with the attributes `st`. Throws Error when there are
/// some and the user may open none of them.
bool keeps_devices(const Doing& doing, int source, const struct stat& st) {
    if (!doing.mount.keeps_devices) return false;
    if (is_device(st.st_mode)) {
        if (!may_open_device(cat("/proc/self/fd/", source))) refuse_device(doing, errno, st);
        return true;
    }
    if (!S_ISDIR(st.st_mode)) return false;
    std::string path = sys::opened_path(source);
    if (path != "/dev" && !path.starts_with("/dev/")) return false;
    check_folder_of_devices(doing, source);
    return true;
}

/// With a policy the source is opened first and cloned from its descriptor: what is compared is what is mounted.
Source take(const Doing& doing, const plan::SourcePolicy* policy) {
    const plan::Mount& mount = doing.mount;
    Source taken;
    if (!policy && is_hardly_a_directory(mount)) taken.tree = sys::clone_file(mount.source);
    Fd source = taken.tree ? Fd() : open_source(doing);
    if (!taken.tree && !source) return taken;
    if (policy) plan::check_source(*policy, mount, doing.origin, sys::opened_path(source.get()));
    try {
        struct stat st = sys::stat_of(taken.tree ? taken.tree.get() : source.get(), "the source");
        if (mount.device) check_device(taken.tree ? taken.tree.get() : source.get(), st, doing);
        taken.directory = S_ISDIR(st.st_mode);
        // What lies below a directory was not taken with it.
        if (taken.tree && taken.directory && (mount.recursive || mount.keeps_devices)) source = open_source(doing);
        bool devices = mount.device || keeps_devices(doing, source ? source.get() : taken.tree.get(), st);
        if (source) taken.tree = sys::open_tree_clone(source.get(), mount.recursive && taken.directory, "the source");
        sys::set_mount_attributes(taken.tree.get(), flags_of(mount, devices), 0, true, "it",
                                  propagation_of(mount));
    } catch (const SysError& error) {
        // The kernel keeps what the node's administrator covered by a mount covered.
        const char* hint = error.number() == EINVAL && !mount.recursive
                               ? "; there are mounts below it that may not be left out: use rbind"
                               : "";
        throw Error(cat(doing.text(), ": ", error.what(), hint));
    }
    return taken;
}

Missing missing_of(const plan::Mount& mount, bool directory) {
    switch (mount.create) {
        case plan::Mount::Create::none:
            return Missing::fails;
        case plan::Mount::Create::directory:
            return Missing::directory;
        case plan::Mount::Create::file:
            return Missing::file;
        case plan::Mount::Create::automatic:
            break;
    }
    return directory ? Missing::directory : Missing::file;
}

/// Type and options of a new file system. Terminals belong to whoever opens one: the usual group tty is nobody in the
/// user namespace.
std::pair<const char*, std::vector<sys::MountOption>> file_system_of(const plan::Mount& mount) {
    using Kind = plan::Mount::Kind;
    if (mount.kind == Kind::devpts) return {"devpts", {{"source", "devpts"}, {"mode", "0620"}, {"ptmxmode", "0666"}}};
    if (mount.kind == Kind::cgroup) return {"cgroup2", {{"source", "cgroup2"}}};
    char mode[16];
    snprintf(mode, sizeof mode, "%o", mount.mode & 07777U);
    std::vector<sys::MountOption> options = {{"source", "tmpfs"}, {"mode", mode}};
    if (mount.size != 0) options.push_back({"size", cat(mount.size)});
    for (const auto& [key, value] : mount.options) options.push_back({key, value});
    return {"tmpfs", options};
}

/// What is laid over `target`: an empty directory, one for all, or the container's /dev/null.
Fd new_mask(const Root& root, int target, FreshDirectories& fresh) {
    if (!S_ISDIR(sys::stat_of(target, "the mount point").st_mode)) {
        Fd null = sys::open_tree_clone(root.open("/dev/null", Missing::fails).get(), false, "/dev/null");
        sys::set_mount_attributes(null.get(), MOUNT_ATTR_RDONLY, 0, false, "/dev/null");
        return null;
    }
    return fresh.empty();
}

void attach_mask(const Root& root, const Doing& doing, FreshDirectories& fresh) {
    try {
        Fd target = root.open(doing.mount.target, Missing::fails);
        sys::move_mount_to(new_mask(root, target.get(), fresh).get(), target.get(), "it");
        root.forget_places();
    } catch (const SysError& error) {
        // A node's /proc that is not mounted, or not with these.
        if (error.number() != ENOENT) throw Error(cat(doing.text(), ": ", error.what()));
    }
}

Fd new_file_system(const plan::Mount& mount, FreshDirectories& fresh) {
    bool plain = mount.kind == plan::Mount::Kind::tmpfs && mount.size == 0 && mount.options.empty();
    auto [type, options] = file_system_of(mount);
    Fd made = plain ? fresh.make(mount.mode, flags_of(mount, mount.device))
                    : sys::new_mount(type, options, static_cast<unsigned>(flags_of(mount, mount.device)));
    if (mount.propagation != plan::Propagation::isolated)
        sys::set_mount_attributes(made.get(), 0, 0, false, "a tmpfs", propagation_of(mount));
    return made;
}

}  // namespace

Source source_at(int place, const plan::Mount& mount) {
    bool directory = S_ISDIR(sys::stat_of(place, "the source").st_mode);
    Source out{sys::open_tree_clone(place, mount.recursive && directory, "the source"), directory};
    sys::set_mount_attributes(out.tree.get(), flags_of(mount, false), 0, true, "it", propagation_of(mount));
    return out;
}

namespace {

/// A part of the container's own files, which are there only now; empty for an optional one that is missing.
Source take_inside(const Root& root, const Doing& doing) {
    const plan::Mount& mount = doing.mount;
    try {
        return source_at(root.open(mount.source, Missing::fails).get(), mount);
    } catch (const SysError& error) {
        if (mount.optional && error.number() == ENOENT) return {};
        throw Error(cat(doing.text(), ": ", error.what()));
    }
}

bool is_called_squashfs(const std::string& path) {
    return path.ends_with(".sqsh") || path.ends_with(".squashfs") || path.ends_with(".sqfs");
}

/// The mount point, checked: of the same kind as what is mounted, and not the root.
Fd open_target(const Root& root, const Doing& doing, bool directory) {
    Fd target;
    try {
        target = root.open(doing.mount.target, missing_of(doing.mount, directory), Where::named);
    } catch (const Error& error) {
        throw Error(cat(doing.text(), ": ", error.what()));
    }
    struct stat st = sys::stat_of(target.get(), "a mount point");
    if (root.is_root(st)) throw Error(cat(doing.text(), ": the target is the root of the container"));
    bool is_directory = S_ISDIR(st.st_mode);
    if (is_directory == directory) return target;
    throw Error(cat(doing.text(), ": the target is ",
                    is_directory ? "a directory and the source is none" : "no directory and the source is one",
                    is_directory && is_called_squashfs(doing.mount.source)
                        ? "; for what is in a squashfs file add the flag squashfs"
                        : ""));
}

}  // namespace

std::string described(const plan::Mount& mount, const plan::Origin& origin) {
    using Kind = plan::Mount::Kind;
    bool has_path = mount.kind == Kind::bind || mount.kind == Kind::squashfs;
    if (mount.layer) return cat("laying ", printable(mount.source, 4096), " over the image (", origin, ")");
    std::string what = mount.kind == Kind::tmpfs ? "a tmpfs"
                       : has_path                ? printable(mount.source, 4096)
                                                 : cat("a new ", mount.source);
    return cat("mounting ", what, " at ", printable(mount.target, 4096), " (", origin, ")");
}

std::vector<Source> take_sources(const std::vector<plan::Edit>& edits, const plan::SourcePolicy& policy,
                                 Fd own_proc) {
    std::vector<Source> sources(edits.size());
    for (size_t i = 0; i < edits.size(); ++i) {
        const auto* mount = std::get_if<plan::Mount>(&edits[i].action);
        if (mount && mount->kind == plan::Mount::Kind::bind && !mount->inside)
            sources[i] = take({*mount, edits[i].origin}, plan::is_judged(policy, edits[i]) ? &policy : nullptr);
        if (mount && mount->kind == plan::Mount::Kind::proc) sources[i] = {std::exchange(own_proc, Fd()), true};
    }
    return sources;
}

bool comes_from_elsewhere(const plan::Mount& mount) {
    using Kind = plan::Mount::Kind;
    return mount.kind == Kind::bind || mount.kind == Kind::proc || mount.kind == Kind::squashfs;
}

void attach(Root& root, const plan::Mount& mount, const plan::Origin& origin, const Source& taken,
            FreshDirectories& fresh) {
    using Kind = plan::Mount::Kind;
    bool is_new = !comes_from_elsewhere(mount);
    Doing doing{mount, origin};
    Source own = mount.inside ? take_inside(root, doing) : Source();
    const Source& source = mount.inside ? own : taken;
    if (!is_new && !source.tree) return;
    if (mount.kind == Kind::mask) return attach_mask(root, doing, fresh);
    Fd target = open_target(root, doing, is_new || source.directory);
    try {
        Fd made = is_new ? new_file_system(mount, fresh) : Fd();
        int tree = is_new ? made.get() : source.tree.get();
        sys::move_mount_to(tree, target.get(), "it");
        if (mount.kind == Kind::tmpfs) root.adopt(tree);
        if (is_new || source.directory) root.forget_places();
    } catch (const Error& error) {
        throw Error(cat(doing.text(), ": ", error.what()));
    }
}

}  // namespace berth::mount
