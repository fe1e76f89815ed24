#include "spank/run_directory.hh"

#include <fcntl.h>
#include <sys/stat.h>

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

/// The directory `name` in `parent`. It is given to its owner only through its descriptor and only while it is still root's own empty one.
Fd directory(int parent, const std::string& name, const std::string& shown, const Wanted& wanted) {
    if (mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) throw SysError("making " + shown);
    Fd fd(openat(parent, name.c_str(), directory_flags));
    if (!fd) throw SysError(cat("opening ", shown, " (it must be a directory)"));
    struct stat info;
    if (fstat(fd.get(), &info) != 0) throw SysError("looking at " + shown);
    bool as_made = info.st_uid == geteuid() && (info.st_mode & 07777) == 0700;
    if (as_made && (wanted.uid != info.st_uid || wanted.mode != 0700)) {
        if (fchmod(fd.get(), wanted.mode) != 0 || fchown(fd.get(), wanted.uid, wanted.gid) != 0) throw SysError("giving away " + shown);
        if (fstat(fd.get(), &info) != 0) throw SysError("looking at " + shown);
    }
    if (info.st_uid != wanted.uid || (info.st_mode & 07777) != wanted.mode)
        throw Error(cat(shown, " belongs to user ", info.st_uid, " with another mode than berth's own; have it removed by the administrator"));
    return fd;
}

}  // namespace

void make_run_directory(int run, uid_t uid, gid_t gid) {
    Fd berth = directory(run, "berth", "/run/berth", {geteuid(), getegid(), 0755});
    std::string name = std::to_string(uid);
    directory(berth.get(), name, "/run/berth/" + name, {uid, gid, 0700});
}

void make_run_directory(uid_t uid, gid_t gid) {
    Fd run(open("/run", directory_flags));
    if (!run) throw SysError("opening /run");
    make_run_directory(run.get(), uid, gid);
}

}  // namespace berth::spank
