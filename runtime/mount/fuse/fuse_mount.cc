#include "runtime/mount/fuse/fuse_mount.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/selinux.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

Fd open_fuse_device() {
    Fd fd = sys::try_open_at(AT_FDCWD, "/dev/fuse", O_RDWR);
    if (fd) return fd;
    int number = errno;
    struct stat device {};
    ::stat("/dev/fuse", &device);
    throw Error(cat("opening /dev/fuse to serve the image: ", reason(number),
                    fuse_device_hint(number, device.st_mode, sys::selinux_context())));
}

std::string fuse_device_hint(int number, mode_t mode, const std::string& selinux_context) {
    if (number == EACCES && (mode & 0666) == 0666 && !selinux_context.empty())
        return sys::selinux_hint("it", selinux_context);
    if (number == EACCES || number == EPERM)
        return "; its mode must be 0666 (chmod 666 /dev/fuse, or the udev rules of the fuse3 package)";
    if (number == ENOENT || number == ENODEV || number == ENXIO)
        return "; load the kernel module (modprobe fuse); an image alone can do without, by mount.engine = \"unpack\"";
    return {};
}

void attach_fuse(int device, uid_t uid, gid_t gid, int mount_point) {
    std::vector<sys::MountOption> settings = {{"source", "berth"},
                                              {"fd", cat(device)},
                                              {"rootmode", "40000"},
                                              {"user_id", cat(uid)},
                                              {"group_id", cat(gid)},
                                              {"allow_other", "", true},
                                              {"default_permissions", "", true}};
    Fd mount = sys::new_mount("fuse", settings, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    sys::move_mount_to(mount.get(), mount_point, "the image");
}

}  // namespace berth::mount
