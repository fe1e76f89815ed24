#include "spank/job_steps.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/owned_directory.hh"

namespace berth::spank {

namespace {

std::string file_of(const JobOnNode& job) { return cat(job.uid, ".", job.job, ".", job.node); }

/// UID.JOB.NODE; a node's name may have dots.
std::optional<JobOnNode> job_of(const std::string& file) {
    size_t first = file.find('.'), second = first == file.npos ? first : file.find('.', first + 1);
    uint64_t uid = 0, job = 0;
    if (second == file.npos || !parse_number(file.substr(0, first), UINT32_MAX, uid) ||
        !parse_number(file.substr(first + 1, second - first - 1), UINT32_MAX, job))
        return std::nullopt;
    return JobOnNode{static_cast<uid_t>(uid), static_cast<uint32_t>(job), file.substr(second + 1)};
}

Fd open_in(const std::string& folder, const std::string& file) {
    Fd jobs = sys::open_if_exists(AT_FDCWD, folder, directory_flags);
    return jobs ? sys::open_if_exists(jobs.get(), file, O_RDWR | O_NOFOLLOW) : Fd();
}

bool lock(const Fd& file, int how) {
    while (flock(file.get(), how) != 0) {
        if (errno == EWOULDBLOCK) return false;
        if (errno != EINTR) throw SysError("locking a file of " + std::string(job_steps_folder));
    }
    return true;
}

bool is_over(const Fd& file) { return sys::stat_of(file.get(), "a job's file").st_size > 0; }

}  // namespace

Fd enter_job(const std::string& folder, const JobOnNode& job) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw SysError("making " + folder);
    Fd jobs = sys::open_file(folder, directory_flags);
    Fd out = sys::open_at(jobs.get(), file_of(job), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    // Who ends other jobs holds it for a moment.
    lock(out, LOCK_SH);
    return out;
}

/// Each that leaves first gives up its own hold, and then looks whether it is the last: of any two the later one sees
/// that the other has gone, and whoever comes after the end of the job sees that it is over.
Fd leave_job(const std::string& folder, const JobOnNode& job, Fd hold, bool over) {
    if (hold) lock(hold, LOCK_UN);
    Fd file = hold ? std::move(hold) : open_in(folder, file_of(job));
    if (!file) return file;
    if (over) sys::write_all(file.get(), "over\n", folder);
    return is_over(file) && lock(file, LOCK_EX | LOCK_NB) ? std::move(file) : Fd();
}

void forget_job(const std::string& folder, const JobOnNode& job) { unlink(cat(folder, '/', file_of(job)).c_str()); }

std::vector<IdleJob> idle_jobs(const std::string& folder, const JobOnNode& own) {
    std::vector<IdleJob> out;
    Fd jobs = sys::open_if_exists(AT_FDCWD, folder, directory_flags);
    if (!jobs) return out;
    for (const std::string& name : sys::list_directory(jobs.get(), folder)) {
        std::optional<JobOnNode> job = job_of(name);
        if (!job || job->node != own.node || job->job == own.job) continue;
        Fd file = open_in(folder, name);
        if (!file || !lock(file, LOCK_EX | LOCK_NB)) continue;
        bool over = is_over(file);
        out.push_back({std::move(*job), over, std::move(file)});
    }
    return out;
}

}  // namespace berth::spank
