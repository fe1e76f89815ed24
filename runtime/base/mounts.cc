#include "runtime/base/mounts.hh"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/old_mounts.hh"
#include "runtime/base/text.hh"

namespace berth::sys {

namespace {

/// What the kernel wrote into the context's log ("e overlay: ..."), or an empty text.
std::string context_message(int context) {
    char buffer[512];
    ssize_t got = ::read(context, buffer, sizeof buffer);
    if (got <= 2) return {};
    return cat(" (", printable(trimmed({buffer + 2, static_cast<size_t>(got) - 2})), ")");
}

}  // namespace

Fd open_tree_clone(int fd, bool recursive, const std::string& what) {
    if (old::needed()) return old::clone_tree(fd, recursive, what);
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
    Fd tree(static_cast<int>(syscall(SYS_open_tree, fd, "", flags)));
    if (!tree) throw SysError(cat("taking the mount of ", what));
    return tree;
}

Fd clone_file(const std::string& path) {
    if (old::needed()) return {};
    return Fd(static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
}

void move_mount_to(int mount, int target, const std::string& what) {
    if (old::needed()) return old::move_mount(mount, target, what);
    if (syscall(SYS_move_mount, mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        throw SysError(cat("mounting ", what));
}

Fd new_mount(const std::string& type, const std::vector<MountOption>& options, unsigned attributes) {
    if (old::needed()) return old::new_mount(type, options, attributes);
    Fd context(static_cast<int>(syscall(SYS_fsopen, type.c_str(), FSOPEN_CLOEXEC)));
    if (!context) throw SysError(cat("preparing a mount of type ", type));
    auto configure = [&](unsigned command, const char* key, const char* value) {
        if (syscall(SYS_fsconfig, context.get(), command, key, value, 0) == 0) return;
        int number = errno;
        throw SysError(cat("mounting ", type, key ? cat(" with ", key, value ? cat("=", value) : "") : "",
                           context_message(context.get())),
                       number);
    };
    for (const MountOption& option : options)
        configure(option.is_flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING, option.key.c_str(),
                  option.is_flag ? nullptr : option.value.c_str());
    // The file system as well as the mount, as mount(2) does: FUSE asks for a file's attributes again after each
    // reading of it where times of access might change.
    if ((attributes & MOUNT_ATTR_RDONLY) != 0) configure(FSCONFIG_SET_FLAG, "ro", nullptr);
    configure(FSCONFIG_CMD_CREATE, nullptr, nullptr);
    Fd mount(static_cast<int>(syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, attributes)));
    if (!mount) throw SysError(cat("mounting ", type));
    return mount;
}

void set_mount_attributes(int mount, uint64_t set, uint64_t clear, bool recursive, const std::string& what,
                          uint64_t propagation) {
    if (old::needed()) return old::set_attributes(mount, set, clear, recursive, what, propagation);
    mount_attr attributes{};
    attributes.propagation = propagation;
    attributes.attr_set = set;
    attributes.attr_clr = clear;
    unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
    if (syscall(SYS_mount_setattr, mount, "", flags, &attributes, sizeof attributes) != 0)
        throw SysError(cat("setting the mount flags of ", what));
}

}  // namespace berth::sys
