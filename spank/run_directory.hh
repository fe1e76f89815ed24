// The user's folder in /run: a small file system in memory for each user who has jobs on the node.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "runtime/base/fd.hh"
#include "spank/config.hh"

namespace berth::spank {

/// A job of a user on a node. The node's name tells several slurmd of one machine apart.
struct JobOnNode {
    uid_t uid = 0;
    uint32_t job = 0;
    std::string node;
    bool script = false;  ///< enter_run_directory() is called for the batch script
};

/// Has the job use its user's folder, which is made when it is missing:
///     RUN/berth             tmpfs, root's, 0755
///     RUN/berth/jobs        root's, 0700: a file UID.JOB.NODE for each job that uses its user's folder, not empty
///                           when its batch script does
///     RUN/berth/UID         tmpfs with the limits, root's, 0755: nobody else can mount anything on it
///     RUN/berth/UID/steps   the user's, 0700
/// What is there already must be just so; anything else is refused with Error and left alone. A file system of the
/// site's at RUN/berth is used as it is. With limits.bytes 0 nothing is mounted. `run` is a descriptor of /run, `gid`
/// the user's group. One process at a time, by a lock on RUN/berth.lock, does this or leave_run_directory(). Throws
/// Error.
void enter_run_directory(int run, const JobOnNode& job, gid_t gid, const RunLimits& limits);

/// The job has ended. With the last one of the user the file system goes, and all that the user has put into it or
/// mounted there; processes that still use it keep it until they end. Throws Error.
void leave_run_directory(int run, const JobOnNode& job);

/// The job's batch script has entered. Never throws: what cannot be seen is not so.
bool script_is_contained(int run, const JobOnNode& job);

/// The same in /run.
void enter_run_directory(const JobOnNode& job, gid_t gid, const RunLimits& limits);
void leave_run_directory(const JobOnNode& job);
bool script_is_contained(const JobOnNode& job);

/// RUN/berth/UID/steps; nothing (and errno) when it is not there, or something is mounted on it. Never waits for what
/// a user does.
Fd open_run_directory(uid_t uid);

/// True when there is `mark` in that folder. Root follows no link of the user's.
bool has_user_mark(uid_t uid, const std::string& mark);

/// Removes the socket by which other steps join a step ("n1.7.0", runtime/step/container.cc) from there: a helper that
/// was killed has left it. What is not there or cannot be removed goes with the folder.
void remove_step_socket(uid_t uid, const std::string& name);

}  // namespace berth::spank
