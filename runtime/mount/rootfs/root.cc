#include "runtime/mount/rootfs/root.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

namespace {

Fd staging_place() {
    for (const char* path : {"/tmp", "/var/tmp", "/run", "/mnt", "/proc"})
        if (Fd fd = sys::open_if_exists(AT_FDCWD, path, O_PATH | O_DIRECTORY)) return fd;
    throw Error("staging the container: this node has neither /tmp, /var/tmp, /run nor /mnt");
}

Fd mount_overlay(const std::vector<sys::MountOption>& options) {
    try {
        return sys::new_mount("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    } catch (const SysError& problem) {
        if (problem.number() == ELOOP)
            throw Error("mounting the overlay: one of the directories in it lies in another, or is given twice; leave "
                        "one of them out");
        if (problem.number() != EPERM && problem.number() != ENODEV) throw;
        throw Error(cat(problem.what(),
                        problem.number() == ENODEV
                            ? "; load the kernel module: modprobe overlay"
                            : "; users may do that on Linux 5.12 and newer: berth doctor tells what this node lacks"));
    }
}

}  // namespace

Fd make_staging(uint64_t size) {
    std::vector<sys::MountOption> options = {{"source", "berth"}, {"mode", "0755"}};
    if (size != 0) options.push_back({"size", cat(size)});
    Fd staging = sys::new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    try {
        sys::move_mount_to(staging.get(), staging_place().get(), "the staging area of the container");
    } catch (const SysError& error) {
        sys::throw_forbidden_mount("mounting the staging area of the container", error.number());
    }
    for (const char* name : {"lower", "upper", "work", "disk", "root"})
        if (::mkdirat(staging.get(), name, 0755) != 0) throw SysError(cat("creating the staging directory ", name));
    return staging;
}

Fd staging_directory(int staging, const std::string& name) {
    return sys::open_at(staging, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

namespace {

/// The overlay, not attached anywhere. Names are relative to the working directory: they keep the mount table free of
/// the node's paths, and need no quoting.
Fd new_overlay(const OverlayOptions& options, const std::string& upper, const std::string& work) {
    std::string lower;
    for (const std::string& layer : options.layers) lower += layer + ":";
    // xino: without it files of the image have another device number than its directories, and `tar --one-file-system`,
    // `rsync -x` and `du -x` leave them out. With it their inode numbers are over 2^63.
    return mount_overlay({{"source", options.source},
                          {"lowerdir", lower + "lower"},
                          {"upperdir", upper},
                          {"workdir", work},
                          {"xino", options.small_inode_numbers ? "off" : "on"},
                          {"userxattr", "", true}});
}

/// What an overlay needs of the file system it writes to, tried out: without some of it the kernel mounts, and fails at
/// the first removal.
void try_marks(const char* folder) {
    std::string probe = cat(folder, "probe"), whiteout = probe + "/whiteout";
    auto check = [](long result, const char* what) {
        if (result != 0) throw SysError(what);
    };
    check(::mkdir(probe.c_str(), 0700) != 0 && errno != EEXIST, "making a directory");
    ::unlink(whiteout.c_str());
    check(::setxattr(probe.c_str(), "user.overlay.opaque", "y", 1, 0), "setting a user.* attribute");
    check(::mknod(whiteout.c_str(), S_IFCHR, makedev(0, 0)), "making the mark of a removed file");
    check(::unlink(whiteout.c_str()), "removing it");
    check(::rmdir(probe.c_str()), "removing a directory");
}

/// A directory of the user's folder. With a link in its place the container would write where that leads, past what the
/// site allows.
Fd directory_on_disk(const std::string& name, const std::string& path) {
    Fd out = sys::try_open_at(AT_FDCWD, "disk/" + name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (out) return out;
    if (errno != ENOTDIR && errno != ELOOP) throw SysError(cat("opening ", printable(path, 4096), "/", name));
    throw Error(cat("keeping the container's files in ", printable(path, 4096), ": ", name,
                    " is no directory but a link or a file; remove the container by berth rm"));
}

std::string path_of(const Fd& fd) { return cat("/proc/self/fd/", fd.get()); }

Fd new_overlay_on_disk(const OverlayOptions& options) {
    const std::string& path = options.disk_path;
    Fd upper = directory_on_disk("upper", path), work = directory_on_disk("work", path);
    std::string why;
    try {
        try_marks("disk/");
        return new_overlay(options, path_of(upper), path_of(work));
    } catch (const Error& error) {
        why = error.what();
    }
    // What fails in memory as well is not the folder's fault, and says so itself.
    (void)new_overlay(options, "upper", "work");
    throw Error(
        cat("keeping the container's files in ", printable(path, 4096),
            ": its file system cannot hold what an overlay writes (", why,
            "); set ", options.setting, " to a folder on a local disk (ext4, xfs, btrfs), or in /dev/shm"));
}

}  // namespace

void make_read_only_overlay(int folder, bool small_inode_numbers) {
    for (const char* name : {"empty", "root"})
        if (::mkdirat(folder, name, 0755) != 0) throw SysError(cat("creating the staging directory ", name));
    if (::fchdir(folder) != 0) throw SysError("entering the staging area of the container");
    // The kernel wants two directories where nothing is written.
    Fd overlay = mount_overlay({{"source", "berth"},
                                {"lowerdir", "lower:empty"},
                                {"xino", small_inode_numbers ? "off" : "on"},
                                {"userxattr", "", true}});
    sys::move_mount_to(overlay.get(), staging_directory(folder, "root").get(), "an overlay");
}

Root Root::make_overlay(int staging, const OverlayOptions& options) {
    if (::fchdir(staging) != 0) throw SysError("entering the staging area of the container");
    Fd overlay = options.on_disk ? new_overlay_on_disk(options) : new_overlay(options, "upper", "work");
    sys::move_mount_to(overlay.get(), staging_directory(staging, "root").get(), "the container's root");
    return Root(std::move(overlay));
}

Root Root::attach(int staging, Fd root) {
    sys::move_mount_to(root.get(), staging_directory(staging, "root").get(), "the container's root");
    return Root(std::move(root));
}

Root::Root(Fd directory) : directory_(std::move(directory)) {
    struct stat st = sys::stat_of(directory_.get(), "the container's root");
    device_ = st.st_dev, inode_ = st.st_ino;
    own_.insert(st.st_dev);
}

void Root::adopt(int fd) {
    own_.insert(sys::stat_of(fd, "a file system of the container").st_dev);
}

bool Root::owns(int fd) const {
    return own_.contains(sys::stat_of(fd, "a directory of the container").st_dev);
}

void Root::make_read_only() const {
    sys::set_mount_attributes(directory_.get(), MOUNT_ATTR_RDONLY, 0, false, "the container's root");
}

}  // namespace berth::mount
