#include "runtime/step/scope.hh"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/disk_upper.hh"
#include "runtime/container/named/remove.hh"
#include "runtime/host/facts.hh"

namespace berth {

namespace {

constexpr const char* upper_prefix = "upper-";

std::string mark_of(const plan::Caller& caller, uint32_t job) { return cat(run_directory(caller), "/job-", job); }

void remove_all(const ContainerFolder& folder, const plan::Site& site, const plan::Caller& caller) {
    for (const std::string& name : folder.names()) remove_container(folder, name, true, site, caller);
}

}  // namespace

std::string run_directory(const plan::Caller& caller) { return cat("/run/berth/", caller.uid, "/steps"); }

std::string job_scope(uint32_t job) { return cat("job", job); }

void mark_job(const plan::Caller& caller, uint32_t job, const std::string& path) {
    Fd file = sys::open_file(mark_of(caller, job), O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), path, "the mark of a job in /run/berth");
}

std::string mark_of_upper(const plan::Caller& caller, const std::string& step) {
    return cat(run_directory(caller), "/", upper_prefix, step);
}

void mark_job_of_upper(const plan::Caller& caller, uint32_t job) {
    (void)sys::open_file(mark_of(caller, job), O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
}

void end_step(const plan::Caller& caller, const std::string& step) {
    // It becomes part of a path.
    if (step.empty() || step.find('/') != step.npos) throw Error("ending a step: it is not of the form NODE.JOB.STEP");
    remove_left_upper(mark_of_upper(caller, step));
}

namespace {

/// A step's mark ends with its numbers: a node's name may have dots.
void end_steps(const plan::Caller& caller, uint32_t job) {
    Fd folder = sys::open_file(run_directory(caller), O_RDONLY | O_DIRECTORY);
    for (const std::string& name : sys::list_directory(folder.get(), run_directory(caller))) {
        size_t last = name.rfind('.');
        if (name.starts_with(upper_prefix) && last != name.npos && name.substr(0, last).ends_with(cat(".", job)))
            remove_left_upper(cat(run_directory(caller), "/", name));
    }
}

}  // namespace

void end_job(const plan::Caller& caller, uint32_t job) {
    std::string mark = mark_of(caller, job);
    Fd file = sys::open_if_exists(AT_FDCWD, mark, O_RDONLY | O_NOFOLLOW);
    if (!file) return;
    std::string path = sys::read_all(file.get(), 4096, mark);
    // First: what cannot be removed now is for the next sweep.
    if (::unlink(mark.c_str()) != 0 && errno != ENOENT) throw SysError(cat("removing ", mark));
    end_steps(caller, job);
    if (!path.empty()) remove_all(ContainerFolder::open(path, job_scope(job)), load_site(), caller);
}

void sweep_jobs(const plan::Site& site, const plan::Caller& caller) {
    try {
        ContainerFolder folder = open_container_folder(site, caller);
        for (uint32_t job : folder.jobs()) {
            if (sys::may_access(mark_of(caller, job), F_OK)) continue;
            remove_all(ContainerFolder::open(folder.path(), job_scope(job)), site, caller);
        }
    } catch (const Error&) {
        // See the header.
    }
}

}  // namespace berth
