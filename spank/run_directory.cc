#include "spank/run_directory.hh"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

struct Wanted {
    uid_t uid;
    gid_t gid;
    mode_t mode;
};

/// What a user mounts over their own folder could let root wait there for ever: only what is in `parent` itself is
/// opened.
Fd open_beneath(int parent, const std::string& name) {
    open_how how{};
    how.flags = directory_flags;
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    Fd fd(static_cast<int>(syscall(SYS_openat2, parent, name.c_str(), &how, sizeof how)));
    // Before Linux 5.6.
    return !fd && errno == ENOSYS ? Fd(openat(parent, name.c_str(), directory_flags)) : std::move(fd);
}

/// The directory `name` in `parent`, opened as `open` does it. It is given to its owner only through its descriptor and
/// only while it is still root's own empty one.
template <class Open>
Fd directory(int parent, const std::string& name, const std::string& shown, const Wanted& wanted, const Open& open) {
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

}  // namespace

void make_run_directory(int run, uid_t uid, gid_t gid) {
    // A site may have a file system for /run/berth.
    auto anywhere = [](int parent, const std::string& name) {
        return Fd(openat(parent, name.c_str(), directory_flags));
    };
    Fd berth = directory(run, "berth", "/run/berth", {geteuid(), getegid(), 0755}, anywhere);
    std::string name = std::to_string(uid);
    (void)directory(berth.get(), name, "/run/berth/" + name, {uid, gid, 0700}, open_beneath);
}

void make_run_directory(uid_t uid, gid_t gid) {
    Fd run(open("/run", directory_flags));
    if (!run) throw SysError("opening /run");
    make_run_directory(run.get(), uid, gid);
}

Fd open_run_directory(uid_t uid) {
    Fd berth(open("/run/berth", directory_flags));
    return berth ? open_beneath(berth.get(), std::to_string(uid)) : Fd();
}

}  // namespace berth::spank
