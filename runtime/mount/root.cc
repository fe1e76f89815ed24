#include "runtime/mount/root.hh"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "runtime/base/error.hh"
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
        if (problem.number() != EPERM && problem.number() != ENODEV) throw;
        throw Error(cat(problem.what(), problem.number() == ENODEV ? "; load the kernel module: modprobe overlay"
                                                                   : "; users may do that on Linux 5.12 and newer: berth doctor tells what this node lacks"));
    }
}

}  // namespace

Fd make_staging(uint64_t size) {
    std::vector<sys::MountOption> options = {{"source", "berth"}, {"mode", "0755"}};
    if (size != 0) options.push_back({"size", cat(size)});
    Fd staging = sys::new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    sys::move_mount_to(staging.get(), staging_place().get(), "the staging area of the container");
    for (const char* name : {"lower", "upper", "work", "root"})
        if (::mkdirat(staging.get(), name, 0755) != 0) throw SysError(cat("creating the staging directory ", name));
    return staging;
}

Fd staging_directory(int staging, const std::string& name) {
    return sys::open_at(staging, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

Root Root::make_overlay(int staging) {
    // Relative names keep the mount table free of the node's paths, and need no quoting.
    if (::fchdir(staging) != 0) throw SysError("entering the staging area of the container");
    // xino: without it files of the image have another device number than its directories, and `tar --one-file-system`, `rsync -x` and `du -x` leave
    // them out.
    std::vector<sys::MountOption> options = {{"source", "berth"}, {"lowerdir", "lower"}, {"upperdir", "upper"},
                                             {"workdir", "work"}, {"xino", "on"},        {"userxattr", "", true}};
    Fd overlay = mount_overlay(options);
    sys::move_mount_to(overlay.get(), staging_directory(staging, "root").get(), "the container's root");
    return Root(std::move(overlay));
}

Root::Root(Fd directory) : directory_(std::move(directory)) {
    adopt(directory_.get());
}

void Root::adopt(int fd) {
    own_.insert(sys::stat_of(fd, "a file system of the container").st_dev);
}

bool Root::owns(int fd) const {
    return own_.contains(sys::stat_of(fd, "a directory of the container").st_dev);
}

bool Root::is_root(int fd) const {
    struct stat here = sys::stat_of(fd, "a mount point"), root = sys::stat_of(directory_.get(), "the container's root");
    return here.st_dev == root.st_dev && here.st_ino == root.st_ino;
}

void Root::make_read_only() const {
    sys::set_mount_attributes(directory_.get(), MOUNT_ATTR_RDONLY, 0, false, "the container's root");
}

}  // namespace berth::mount
