#include "spank/run_directory.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "runtime/base/error.hh"
#include "runtime/base/listing.hh"
#include "runtime/base/lock.hh"
#include "runtime/base/text.hh"
#include "spank/owned_directory.hh"

namespace berth::spank {

namespace {

/// Of the file system that has the users' folders and a file for each job, which are root's alone to make.
constexpr const char* top_limits = "mode=0755,size=1M,nr_inodes=65536";
/// All that is done with the lock takes milliseconds.
constexpr int lock_timeout_ms = 10'000, lock_step_ms = 5;

std::string shown(const JobOnNode& job) { return cat("/run/berth/", job.uid); }
std::string folder_name(const JobOnNode& job) { return std::to_string(job.uid); }
std::string mark_name(const JobOnNode& job) { return cat(job.uid, ".", job.job, ".", job.node); }

/// Nobody but root can open the file, and so hold the lock.
Lock lock_folders(int run) {
    Fd file(openat(run, "berth.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    struct stat info;
    if (!file || fstat(file.get(), &info) != 0) throw SysError("opening /run/berth.lock");
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
        throw Error("/run/berth.lock is not root's alone; have it removed by the administrator");
    for (int waited = 0; flock(file.get(), LOCK_EX | LOCK_NB) != 0; waited += lock_step_ms) {
        if (errno != EWOULDBLOCK && errno != EINTR) throw SysError("locking /run/berth.lock");
        if (waited >= lock_timeout_ms)
            throw Error(cat("locking /run/berth.lock: another process has held it for ", lock_timeout_ms / 1000,
                            " s; end it (fuser /run/berth.lock)"));
        poll(nullptr, 0, lock_step_ms);
    }
    return Lock(std::move(file));
}

dev_t device_of(int directory) {
    struct stat info;
    if (fstat(directory, &info) != 0) throw SysError("looking at /run/berth");
    return info.st_dev;
}

/// Over the very directory that is open, whatever its name is by now.
void mount_memory(const Fd& over, const std::string& options, const std::string& where) {
    std::string target = cat("/proc/self/fd/", over.get());
    if (mount("berth", target.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options.c_str()) != 0)
        throw SysError(cat("mounting a tmpfs at ", where, " (run_size=0 in plugstack.conf does without)"));
}

/// The directory `name` of root's, as a file system of its own; one that is there already is taken as it is.
Fd mounted_directory(int parent, const std::string& name, const std::string& where, const RunLimits& limits,
                     const std::string& options) {
    Owner root{geteuid(), getegid(), 0755};
    Fd out = owned_directory(parent, name, where, root, open_any);
    if (limits.bytes == 0 || device_of(out.get()) != device_of(parent)) return out;
    mount_memory(out, options, where);
    return owned_directory(parent, name, where, root, open_any);
}

void mark(int berth, const JobOnNode& job) {
    Fd jobs = owned_directory(berth, "jobs", "/run/berth/jobs", {geteuid(), getegid(), 0700});
    Fd file(openat(jobs.get(), mark_name(job).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file || (job.script && ftruncate(file.get(), 1) != 0))
        throw SysError(cat("making the mark of job ", job.job, " in /run/berth/jobs"));
}

/// True when another job has a mark in `jobs` as well. Takes the descriptor.
bool has_other_jobs(Fd jobs, uid_t uid) {
    sys::Listing folder = sys::listing_of(std::move(jobs));
    if (!folder) throw SysError("listing /run/berth/jobs");
    std::string start = cat(uid, ".");
    bool found = false;
    while (const dirent* entry = readdir(folder.get()))
        if (std::string_view(entry->d_name).starts_with(start)) found = true;
    return found;
}

/// Unmounts the user's file system, with what is stacked on it, and removes the directory below it.
void remove_folder(int berth, const JobOnNode& job) {
    std::string path = cat("/proc/self/fd/", berth, "/", folder_name(job));
    for (;;) {
        Fd folder = open_any(berth, folder_name(job));
        // Where nothing is mounted the user's files stay: root does not walk through them.
        if (!folder || device_of(folder.get()) == device_of(berth)) break;
        folder.reset();
        if (umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) throw SysError("unmounting " + shown(job));
    }
    if (unlinkat(berth, folder_name(job).c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT && errno != ENOTEMPTY)
        throw SysError("removing " + shown(job));
}

Fd open_run() {
    Fd run(open("/run", directory_flags));
    if (!run) throw SysError("opening /run");
    return run;
}

}  // namespace

void enter_run_directory(int run, const JobOnNode& job, gid_t gid, const RunLimits& limits) {
    Lock lock = lock_folders(run);
    Fd berth = mounted_directory(run, "berth", "/run/berth", limits, top_limits);
    mark(berth.get(), job);
    Fd user = mounted_directory(berth.get(), folder_name(job), shown(job), limits,
                                cat("mode=0755,size=", limits.bytes, ",nr_inodes=", limits.inodes));
    (void)owned_directory(user.get(), "steps", shown(job) + "/steps", {job.uid, gid, 0700});
}

void leave_run_directory(int run, const JobOnNode& job) {
    Fd berth = open_any(run, "berth");
    Fd jobs = berth ? open_own(berth.get(), "jobs") : Fd();
    // Of most jobs: without a container.
    if (!jobs || !has_own(jobs.get(), mark_name(job))) return;
    Lock lock = lock_folders(run);
    if (unlinkat(jobs.get(), mark_name(job).c_str(), 0) != 0 && errno != ENOENT)
        throw SysError(cat("removing the mark of job ", job.job, " from /run/berth/jobs"));
    if (!has_other_jobs(std::move(jobs), job.uid)) remove_folder(berth.get(), job);
}

bool script_is_contained(int run, const JobOnNode& job) {
    Fd berth = open_any(run, "berth");
    Fd jobs = berth ? open_own(berth.get(), "jobs") : Fd();
    struct stat info {};
    return jobs && fstatat(jobs.get(), mark_name(job).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_size > 0;
}

void enter_run_directory(const JobOnNode& job, gid_t gid, const RunLimits& limits) {
    enter_run_directory(open_run().get(), job, gid, limits);
}

void leave_run_directory(const JobOnNode& job) { leave_run_directory(open_run().get(), job); }

bool script_is_contained(const JobOnNode& job) {
    Fd run(open("/run", directory_flags));
    return run && script_is_contained(run.get(), job);
}

Fd open_run_directory(uid_t uid) {
    Fd berth(open("/run/berth", directory_flags));
    Fd user = berth ? open_any(berth.get(), std::to_string(uid)) : Fd();
    return user ? open_own(user.get(), "steps") : Fd();
}

bool has_user_mark(uid_t uid, const std::string& mark) {
    Fd folder = open_run_directory(uid);
    struct stat info {};
    return folder && fstat(folder.get(), &info) == 0 && info.st_uid == uid && has_own(folder.get(), mark);
}

void remove_step_socket(uid_t uid, const std::string& name) {
    Fd folder = open_run_directory(uid);
    struct stat info {};
    if (folder && fstat(folder.get(), &info) == 0 && info.st_uid == uid) unlinkat(folder.get(), name.c_str(), 0);
}

}  // namespace berth::spank
