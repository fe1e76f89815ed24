#include "runtime/container/disk_upper.hh"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/channel.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/store/scratch.hh"

namespace berth {

namespace {

constexpr size_t mark_limit = 8192;

/// What is being made, and the places that its remover needs once names mean something else.
struct Made {
    Fd user, folder, marks;
    std::string name, mark;
};

/// Opened so that no other user can have made it, or put a link in its place.
Fd open_users(int parent, const std::string& name, const std::string& path) {
    Fd out = sys::try_open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!out) throw SysError(cat("opening the folder ", printable(path, 4096), " of mount.upper"));
    struct stat st = sys::stat_of(out.get(), printable(path, 4096));
    if (st.st_uid == ::geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0) return out;
    throw Error(cat("keeping the container's files in ", printable(path, 4096),
                    ": the folder belongs to uid ", st.st_uid, " or others can write to it; remove it, or have the "
                    "administrator set mount.upper to a folder for each user (%u)"));
}

/// The user's own folder in the one that the site names, which may be everybody's.
Fd users_folder(const std::string& folder) {
    sys::make_directories(folder, 0700);
    Fd parent = sys::open_file(folder, O_PATH | O_DIRECTORY);
    std::string name = cat("berth-", ::geteuid());
    if (::mkdirat(parent.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
        throw SysError(cat("making the folder ", printable(folder, 4096), "/", name, " of mount.upper"));
    return open_users(parent.get(), name, cat(folder, "/", name));
}

/// Held by a lock as long as a process has its descriptor: else a sweep takes it.
void make_container_folder(Made& made, const std::string& path) {
    store::ScratchGuard guard(made.user.get());
    made.name = store::scratch_name();
    std::string what = cat("making a folder for the container's files in ", printable(path, 4096));
    if (::mkdirat(made.user.get(), made.name.c_str(), 0700) != 0) throw SysError(what);
    made.folder = sys::open_beneath(made.user.get(), made.name, O_RDONLY | O_DIRECTORY);
    ::flock(made.folder.get(), LOCK_EX | LOCK_NB);
    // What the container sees as the mode of its root.
    for (const char* part : {"upper", "work"})
        if (::mkdirat(made.folder.get(), part, 0755) != 0 || ::fchmodat(made.folder.get(), part, 0755, 0) != 0) {
            int number = errno;
            store::remove_scratch(made.user.get(), made.name);
            throw SysError(what, number);
        }
}

/// Waits until the other end of `life` is shut down, or whoever has it ends, and removes. Never returns.
[[noreturn]] void wait_and_remove(const Made& made, const Fd& life) {
    // What ends the command of a terminal must not end this.
    for (int number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGTSTP}) ::signal(number, SIG_IGN);
    try {
        sys::point_at_null({STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
        sys::close_descriptors_except({life.get(), made.user.get(), made.folder.get(), made.marks.get()});
        if (::chdir("/") != 0) throw SysError("leaving the working directory");
        char byte;
        while (::read(life.get(), &byte, 1) < 0 && errno == EINTR) continue;
        // The processes of a container whose server was killed may still be on their way out.
        for (int attempt = 0; attempt < 50 && !store::remove_scratch(made.user.get(), made.name); ++attempt)
            ::usleep(100'000);
        if (made.marks) ::unlinkat(made.marks.get(), made.mark.c_str(), 0);
    } catch (const std::exception&) {
        // The next start's sweep finds it.
    }
    ::_exit(0);
}

/// Before there is anything to mark, so that nothing stays without a mark.
void write_mark(Made& made, const std::string& mark, const std::string& folder) {
    if (mark.empty()) return;
    size_t slash = mark.rfind('/');
    made.marks = sys::open_file(mark.substr(0, slash), O_PATH | O_DIRECTORY);
    made.mark = mark.substr(slash + 1);
    Fd file = sys::open_at(made.marks.get(), made.mark, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), folder, "the mark of a step in /run/berth");
}

}  // namespace

std::string upper_folder(const plan::Site& site, const plan::Caller& caller, const plan::Job& job) {
    if (site.mount.upper == plan::MountSettings().upper) return {};
    return plan::path_for(site.mount.upper, caller, job).value_or("");
}

DiskUpper::DiskUpper(const std::string& folder, const std::string& mark) {
    if (folder.empty()) return;
    Made made;
    made.user = users_folder(folder);
    store::sweep_scratch(made.user.get());
    write_mark(made, mark, folder);
    make_container_folder(made, folder);
    auto&& [ours, its] = make_channel();
    // No signal at its end: whoever waits for any child waits for commands.
    remover_ = Pid(static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr)));
    if (remover_.get() < 0) {
        int number = errno;
        store::remove_scratch(made.user.get(), made.name);
        throw SysError("starting what will remove the container's files", number);
    }
    if (remover_.get() == 0) {
        ours.reset();
        wait_and_remove(made, its);
    }
    life_ = std::move(ours);
    held_ = std::move(made.folder);
    path_ = cat(folder, "/berth-", ::geteuid(), "/", made.name);
}

ContainerStorage DiskUpper::storage() const {
    ContainerStorage out;
    out.path = path_;
    out.setting = "mount.upper or BERTH_MOUNT_UPPER";
    return out;
}

void DiskUpper::remove() {
    if (!life_) return;
    // A process of the container's that hangs may have this end open too.
    ::shutdown(life_.get(), SHUT_RDWR);
    life_.reset();
    remover_.wait();
    held_.reset();
}

void remove_left_upper(const std::string& mark) {
    Fd file = sys::open_if_exists(AT_FDCWD, mark, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file) return;
    std::string folder = sys::read_all(file.get(), mark_limit, mark);
    Fd parent = sys::open_if_exists(AT_FDCWD, folder, O_PATH | O_DIRECTORY);
    std::string name = cat("berth-", ::geteuid());
    if (parent && ::faccessat(parent.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        store::sweep_scratch(open_users(parent.get(), name, cat(folder, "/", name)).get());
    if (::unlink(mark.c_str()) != 0 && errno != ENOENT) throw SysError(cat("removing ", mark));
}

}  // namespace berth
