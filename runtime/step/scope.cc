#include "runtime/step/scope.hh"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/remove.hh"
#include "runtime/host/facts.hh"

namespace berth {

namespace {

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

void end_job(const plan::Caller& caller, uint32_t job) {
    std::string mark = mark_of(caller, job);
    Fd file = sys::open_if_exists(AT_FDCWD, mark, O_RDONLY | O_NOFOLLOW);
    if (!file) return;
    std::string path = sys::read_all(file.get(), 4096, mark);
    // First: what cannot be removed now is for the next sweep.
    if (::unlink(mark.c_str()) != 0 && errno != ENOENT) throw SysError(cat("removing ", mark));
    remove_all(ContainerFolder::open(path, job_scope(job)), load_site(), caller);
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
