#include "runtime/mount/rootfs/fresh_directories.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "runtime/base/error.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

namespace {

constexpr uint64_t of_memory = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

Fd own_file_system(mode_t mode, uint64_t attributes) {
    char octal[16];
    std::snprintf(octal, sizeof octal, "%o", mode & 07777U);
    return sys::new_mount("tmpfs", {{"source", "tmpfs"}, {"mode", octal}}, static_cast<unsigned>(attributes));
}

}  // namespace

Fd FreshDirectories::make(mode_t mode, uint64_t attributes) {
    if (memory_ < 0) return own_file_system(mode, attributes);
    std::string name = cat("fresh", ++made_);
    if (::mkdirat(memory_, name.c_str(), mode & 07777U) != 0) throw SysError("making an empty directory");
    Fd tree = sys::open_tree_clone(sys::open_at(memory_, name, O_PATH | O_DIRECTORY | O_NOFOLLOW).get(), false,
                                   "an empty directory");
    if (attributes != of_memory)
        sys::set_mount_attributes(tree.get(), attributes, of_memory & ~attributes, false, "an empty directory");
    return tree;
}

Fd FreshDirectories::empty() {
    if (empty_) return sys::open_tree_clone(empty_.get(), false, "an empty directory");
    // The first mount is given away as well: one that is never attached takes the kernel a grace period of its own to
    // end.
    Fd first = make(0555, of_memory | MOUNT_ATTR_RDONLY);
    empty_ = sys::open_at(first.get(), ".", O_PATH | O_DIRECTORY);
    return first;
}

}  // namespace berth::mount
