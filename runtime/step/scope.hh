// Containers that are one job's: what marks the job while it lasts, and their removal after it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/request/request.hh"

namespace berth {

/// The caller's folder in /run, which the plugin makes.
std::string run_directory(const plan::Caller& caller);

/// The scope of a job's containers, for ContainerFolder.
std::string job_scope(uint32_t job);

/// The scope of the names of --container-name as the site has it, in a job, or for the program enroot (0), with this
/// ENROOT_DATA_PATH.
std::string scope_of_steps(const plan::Site& site, uint32_t job, const std::string& data_path);

/// What is to be noted of a container that is made in `folder` with this ENROOT_DATA_PATH (absolute, or empty). Where
/// the scope is that of the path and the path a job's, the job is marked, so that its end removes the container.
/// `in_step`: by a step with a container.
enroot::DataPath data_path_to_note(const std::string& data_path, const ContainerFolder& folder,
                                   const plan::Caller& caller, const std::vector<std::string>& environment,
                                   bool in_step);

/// Records in /run that the job has containers in the folder `path`, for its end; a reboot takes the mark away. Throws
/// SysError.
void mark_job(const plan::Caller& caller, uint32_t job, const std::string& path);

/// The file in /run that says that a step (its NODE.JOB.STEP) has a container with files on disk.
std::string mark_of_upper(const plan::Caller& caller, const std::string& step);

/// Has the job's end look for such marks of its steps. Throws SysError.
void mark_job_of_upper(const plan::Caller& caller, uint32_t job);

/// At a step's end, when its container was killed with all that belongs to it: removes those files. Throws Error.
void end_step(const plan::Caller& caller, const std::string& step);

/// At a job's end: removes its containers, what its steps have left on disk, and its mark. For the caller of slurmd's
/// epilog, who may know nothing but the job. Throws Error.
void end_job(const plan::Caller& caller, uint32_t job);

/// Removes the containers of jobs that have no mark any more: their node was rebooted, or their end could not remove
/// them. So with those of an ENROOT_DATA_PATH that was a job's. A mistake with one is no concern of whoever sweeps: it
/// stays for the next.
void sweep_jobs(const plan::Site& site, const plan::Caller& caller);

/// The same for programs that may run anywhere: only in a batch script or a step (by the caller's environment), since
/// the marks are on the job's node.
void sweep_jobs_on_node(const plan::Site& site, const plan::Caller& caller,
                        const std::vector<std::string>& environment);

}  // namespace berth
