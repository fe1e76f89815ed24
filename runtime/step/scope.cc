#include "runtime/step/scope.hh"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/access.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/disk_upper.hh"
#include "runtime/container/named/data_path.hh"
#include "runtime/container/named/remove.hh"
#include "runtime/host/facts.hh"

namespace berth {

namespace {

constexpr const char* upper_prefix = "upper-";

std::string mark_of(const plan::Caller& caller, uint32_t job) { return cat(run_directory(caller), "/job-", job); }

void remove_all(const ContainerFolder& folder, const plan::Site& site, const plan::Caller& caller) {
    for (const std::string& name : folder.names()) remove_container(folder, name, true, site, caller);
}

/// Of those that belong to an ENROOT_DATA_PATH. Trouble with one keeps no other.
template <typename Belongs>
void remove_of_paths(const ContainerFolder& folder, const plan::Site& site, const plan::Caller& caller,
                     Belongs belongs) {
    for (const std::string& scope : folder.scopes()) {
        if (!enroot::is_scope_of_path(scope)) continue;
        ContainerFolder own = ContainerFolder::open(folder.path(), scope);
        for (const std::string& name : own.names()) try {
                if (belongs(noted_data_path(own, name))) remove_container(own, name, true, site, caller);
            } catch (const Error&) {
                // It stays for the next sweep.
            }
    }
}

/// The directory of the job's cgroup, which is there until the job has ended here: only as long as a step of it is one
/// that lasts so long, since that of others comes and goes with them. Empty where there is none.
std::string lasting_cgroup(uint32_t job) {
    std::string word = cat("/job_", job);
    for (const std::string& line : split(sys::read_file("/proc/self/cgroup"), '\n')) {
        std::vector<std::string> parts = split(line, ':');
        size_t at = parts.size() == 3 ? (parts[2] + "/").find(word + "/") : std::string::npos;
        if (at == std::string::npos) continue;
        std::string path = cat("/sys/fs/cgroup", parts[1].empty() ? "" : "/", parts[1],
                               parts[2].substr(0, at + word.size()));
        for (const char* step : {"/step_extern", "/step_batch"})
            if (sys::may_access(path + step, F_OK)) return path;
    }
    return {};
}

}  // namespace

std::string run_directory(const plan::Caller& caller) { return cat("/run/berth/", caller.uid, "/steps"); }

std::string job_scope(uint32_t job) { return cat("job", job); }

std::string scope_of_steps(const plan::Site& site, uint32_t job, const std::string& data_path) {
    plan::ContainerScope scope = site.defaults.container_scope;
    if (scope == plan::ContainerScope::job && job != 0) return job_scope(job);
    return scope == plan::ContainerScope::data_path && !data_path.empty() ? enroot::scope_of_path_in_steps(data_path)
                                                                          : "global";
}

enroot::DataPath data_path_to_note(const std::string& data_path, const ContainerFolder& folder,
                                   const plan::Caller& caller, const std::vector<std::string>& environment,
                                   bool in_step) {
    enroot::DataPath out;
    out.text = data_path;
    if (data_path.empty() || !enroot::is_scope_of_path(folder.scope())) return out;
    out.job = enroot::job_of_path(data_path, environment, caller.uid);
    if (out.job == 0) return out;
    try {
        mark_job(caller, out.job, folder.path());
        // Of a job without a container, it goes with the last other job of the user's that has one.
        if (in_step) out.signs.push_back(mark_of(caller, out.job));
    } catch (const SysError&) {
        // Nobody has made the user's folder in /run. Then the cgroup alone tells of the job's end.
    }
    if (std::string cgroup = lasting_cgroup(out.job); !cgroup.empty()) out.signs.push_back(std::move(cgroup));
    return out;
}

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
    if (path.empty()) return;
    plan::Site site = load_site();
    ContainerFolder own = ContainerFolder::open(path, job_scope(job));
    remove_of_paths(own, site, caller, [&](const enroot::DataPath& noted) { return noted.job == job; });
    remove_all(own, site, caller);
}

void sweep_jobs(const plan::Site& site, const plan::Caller& caller) {
    try {
        ContainerFolder folder = open_container_folder(site, caller);
        for (uint32_t job : folder.jobs()) {
            if (sys::may_access(mark_of(caller, job), F_OK)) continue;
            remove_all(ContainerFolder::open(folder.path(), job_scope(job)), site, caller);
        }
        remove_of_paths(folder, site, caller, is_over);
    } catch (const Error&) {
        // See the header.
    }
}

void sweep_jobs_on_node(const plan::Site& site, const plan::Caller& caller,
                        const std::vector<std::string>& environment) {
    if (!value_in(environment, "SLURMD_NODENAME").empty()) sweep_jobs(site, caller);
}

}  // namespace berth
