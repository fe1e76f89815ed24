#include "runtime/base/old_mounts.hh"

#include <fcntl.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/mountinfo.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::sys::old {

namespace {

constexpr size_t table_limit = 16 << 20;

/// Not /proc/self: a thread may have a descriptor table of its own.
std::string path_of(int fd) { return cat("/proc/thread-self/fd/", fd); }

/// Where mounts lie that are not attached yet; made at the first use.
const std::string& parking() {
    static const std::string place = [] {
        for (const char* path :
             {"/sys/fs/fuse/connections", "/sys/kernel/config", "/sys/kernel/debug", "/proc/sys/fs/binfmt_misc"}) {
            if (::access(path, F_OK) != 0) continue;
            if (::mount("berth", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0 ||
                ::mount(nullptr, path, nullptr, MS_UNBINDABLE, nullptr) != 0)
                throw SysError(cat("mounting a tmpfs on ", path, " for mounts of the container"));
            return std::string(path);
        }
        throw Error(
            "staging the container: this node has no /sys/fs/fuse/connections and none of the directories used in its "
            "place; see whether /sys is mounted");
    }();
    return place;
}

/// A new mount point there.
std::string slot(bool directory) {
    static unsigned number = 0;
    std::string path = cat(parking(), "/", ::gettid(), "-", ++number);
    int failed = directory ? ::mkdir(path.c_str(), 0700) : ::mknod(path.c_str(), S_IFREG | 0600, 0);
    if (failed != 0) throw SysError("making a place for a mount of the container");
    return path;
}

/// Flags that a remount must name again: those of the node's administrator are locked.
unsigned long kept_flags(const std::string& path) {
    struct statvfs st {};
    if (::statvfs(path.c_str(), &st) != 0) throw SysError("looking at the flags of a mount");
    unsigned long out = 0;
    for (auto [shown, flag] : {std::pair<unsigned long, unsigned long>{ST_RDONLY, MS_RDONLY},
                               {ST_NOSUID, MS_NOSUID},
                               {ST_NODEV, MS_NODEV},
                               {ST_NOEXEC, MS_NOEXEC},
                               {ST_NOATIME, MS_NOATIME},
                               {ST_NODIRATIME, MS_NODIRATIME},
                               {ST_RELATIME, MS_RELATIME}})
        if (st.f_flag & shown) out |= flag;
    return out & (MS_NOATIME | MS_RELATIME) ? out : out | MS_STRICTATIME;
}

unsigned long whole(bool recursive) { return recursive ? static_cast<unsigned long>(MS_REC) : 0; }

/// MOUNT_ATTR_* as MS_*: the first four are the same numbers.
unsigned long flags_of(uint64_t attributes) {
    unsigned long out = attributes & (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return attributes & MOUNT_ATTR_NOATIME ? out | MS_NOATIME : out;
}

void remount(const std::string& path, uint64_t set, uint64_t clear, const std::string& what) {
    unsigned long flags = kept_flags(path) & ~flags_of(clear);
    if ((clear & MOUNT_ATTR__ATIME) != 0)
        flags &= ~static_cast<unsigned long>(MS_NOATIME | MS_RELATIME | MS_STRICTATIME);
    if (::mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | flags | flags_of(set), nullptr) != 0)
        throw SysError(cat("setting the mount flags of ", what));
}

std::string name_of(int fd, const std::string& what) {
    char text[PATH_MAX];
    ssize_t size = ::readlink(path_of(fd).c_str(), text, sizeof text);
    if (size < 0) throw SysError(cat("looking up the name of ", what));
    return {text, static_cast<size_t>(size)};
}

std::vector<MountLine> mount_table() {
    return parse_mountinfo(read_file("/proc/thread-self/mountinfo", table_limit));
}

}  // namespace

bool needed() {
    static const bool lacks = syscall(SYS_mount_setattr, -1, nullptr, 0, nullptr, 0) != 0 && errno == ENOSYS;
    return lacks;
}

Fd clone_tree(int fd, bool recursive, const std::string& what) {
    std::string place = slot(S_ISDIR(stat_of(fd, what).st_mode));
    if (::mount(path_of(fd).c_str(), place.c_str(), nullptr, MS_BIND | whole(recursive), nullptr) != 0)
        throw SysError(cat("taking the mount of ", what));
    return open_file(place, O_PATH | O_NOFOLLOW);
}

void move_mount(int mount, int target, const std::string& what) {
    if (::mount(path_of(mount).c_str(), path_of(target).c_str(), nullptr, MS_MOVE, nullptr) != 0)
        throw SysError(cat("mounting ", what));
}

Fd new_mount(const std::string& type, const std::vector<MountOption>& options, unsigned attributes) {
    std::string place = slot(true), source = "none", text;
    for (const MountOption& option : options) {
        if (option.key == "source")
            source = option.value;
        else
            text += cat(text.empty() ? "" : ",", option.key, option.is_flag ? "" : "=", option.value);
    }
    if (::mount(source.c_str(), place.c_str(), type.c_str(), flags_of(attributes), text.c_str()) != 0)
        throw SysError(cat("mounting ", type, " with ", text));
    return open_file(place, O_PATH | O_NOFOLLOW);
}

void set_attributes(int mount, uint64_t set, uint64_t clear, bool recursive, const std::string& what,
                    uint64_t propagation) {
    std::string top = path_of(mount);
    if (propagation != 0 && ::mount(nullptr, top.c_str(), nullptr, propagation | whole(recursive), nullptr) != 0)
        throw SysError(cat("setting the propagation of ", what));
    if (set == 0 && clear == 0) return;
    remount(top, set, clear, what);
    if (!recursive) return;
    std::string name = name_of(mount, what) + "/";
    for (const MountLine& line : mount_table())
        if (line.place.starts_with(name)) remount(cat(top, "/", line.place.substr(name.size())), set, clear, what);
}

bool is_mount_root(int fd, const std::string& what) {
    std::string name = name_of(fd, what), id;
    for (const std::string& line : split(read_file(cat("/proc/thread-self/fdinfo/", fd)), '\n'))
        if (line.starts_with("mnt_id:")) id = std::string(trimmed(line.substr(7)));
    for (const MountLine& line : mount_table())
        if (line.id == id) return line.place == name;
    return false;
}

}  // namespace berth::sys::old
