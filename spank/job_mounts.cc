#include "spank/job_mounts.hh"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

constexpr const char* run_folder = "/run/berth";
/// Nodes with thousands of mounts are known.
constexpr size_t mountinfo_limit = 16 << 20;
// The columns of a line (proc(5)).
constexpr size_t root_column = 3, target_column = 4;

/// What the child of show_run_directory() does in the job's mounts; errno, or 0.
int mount_tree(int job_mounts, int tree, const char* users_folder, const struct stat& wanted) {
    struct stat there {};
    if (setns(job_mounts, CLONE_NEWNS) != 0) return errno;
    bool is_there = stat(users_folder, &there) == 0;
    if (is_there && there.st_dev == wanted.st_dev && there.st_ino == wanted.st_ino) return 0;
    return syscall(SYS_move_mount, tree, "", AT_FDCWD, run_folder, MOVE_MOUNT_F_EMPTY_PATH) == 0 ? 0 : errno;
}

/// Forks with all signals blocked, so that none of slurmstepd's handlers runs in the child, which makes system calls
/// alone.
int status_of(int job_mounts, int tree, const char* users_folder, const struct stat& wanted) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) _exit(mount_tree(job_mounts, tree, users_folder, wanted));
    int error = errno, status = 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return error;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

}  // namespace

std::string job_mounts_file(std::string_view mountinfo, uint32_t job) {
    std::string ending = cat('/', job, "/.ns"), of_linux = ending + "/mnt";
    for (const std::string& line : split(mountinfo, '\n')) {
        std::vector<std::string> columns = split(line.substr(0, line.find(" - ")), ' ');
        if (columns.size() <= target_column || !columns[root_column].starts_with("mnt:[")) continue;
        const std::string& target = columns[target_column];
        if (target.ends_with(ending) || target.ends_with(of_linux)) return target;
    }
    return {};
}

Fd open_job_mounts(uint32_t job) {
    std::string path = job_mounts_file(sys::read_file("/proc/self/mountinfo", mountinfo_limit), job);
    if (path.empty()) return Fd();
    Fd out = sys::open_file(path, O_RDONLY | O_NOFOLLOW);
    struct statfs info {};
    if (fstatfs(out.get(), &info) != 0) throw SysError("looking at " + path);
    return info.f_type == NSFS_MAGIC ? std::move(out) : Fd();
}

void show_run_directory(int job_mounts, uid_t uid) {
    std::string users = cat(run_folder, '/', uid);
    struct stat wanted {};
    if (stat(users.c_str(), &wanted) != 0) throw SysError("looking at " + users);
    Fd folder = sys::open_file(run_folder, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    Fd tree = sys::open_tree_clone(folder.get(), true, run_folder);
    if (int error = status_of(job_mounts, tree.get(), users.c_str(), wanted); error != 0)
        throw SysError(cat("mounting ", run_folder, " in the mounts that Slurm made for the job"), error);
}

}  // namespace berth::spank
