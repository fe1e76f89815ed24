#include "spank/owned_directory.hh"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

Fd open_any(int parent, const std::string& name) {
    return Fd(openat(parent, name.c_str(), directory_flags));
}

namespace {

Fd open_in(int parent, const std::string& name, int flags) {
    open_how how{};
    how.flags = static_cast<uint64_t>(flags);
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    Fd fd(static_cast<int>(syscall(SYS_openat2, parent, name.c_str(), &how, sizeof how)));
    // Before Linux 5.6.
    return !fd && errno == ENOSYS ? Fd(openat(parent, name.c_str(), flags)) : std::move(fd);
}

}  // namespace

Fd open_own(int parent, const std::string& name) {
    return open_in(parent, name, directory_flags);
}

bool has_own(int parent, const std::string& name) {
    return bool(open_in(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

Fd owned_directory(int parent, const std::string& name, const std::string& shown, const Owner& wanted,
                   Fd (*open)(int, const std::string&)) {
    if (mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) throw SysError("making " + shown);
    Fd fd = open(parent, name);
    if (!fd && errno == EXDEV)
        throw Error(cat("opening ", shown, ": something is mounted on it; unmount it (fusermount -u, or umount)"));
    if (!fd) throw SysError(cat("opening ", shown, " (it must be a directory)"));
    struct stat info;
    if (fstat(fd.get(), &info) != 0) throw SysError("looking at " + shown);
    bool as_made = info.st_uid == geteuid() && (info.st_mode & 07777) == 0700;
    if (as_made && (wanted.uid != info.st_uid || wanted.mode != 0700)) {
        if (fchmod(fd.get(), wanted.mode) != 0 || fchown(fd.get(), wanted.uid, wanted.gid) != 0)
            throw SysError("giving away " + shown);
        if (fstat(fd.get(), &info) != 0) throw SysError("looking at " + shown);
    }
    if (info.st_uid != wanted.uid || (info.st_mode & 07777) != wanted.mode)
        throw Error(cat(shown, " belongs to user ", info.st_uid,
                        " with another mode than berth's own; have it removed by the administrator"));
    return fd;
}

}  // namespace berth::spank
