// What a start is asked for, and by whom: plain values.
#pragma once
#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/request/mounts.hh"
#include "runtime/request/names.hh"
#include "runtime/request/origin.hh"
#include "runtime/request/reference.hh"

namespace berth::plan {

/// Which namespaces of the node a container does not share, besides those of users and mounts.
struct OwnNamespaces {
    bool ipc = false;
    bool net = false;
    bool uts = false;
    bool pid = false;
    bool cgroup = false;
    bool operator==(const OwnNamespaces&) const = default;
};

/// One of them: the word for it in options, records and /proc/PID/ns, its flag for the kernel, and what it is called in
/// a sentence.
struct NamespaceKind {
    bool OwnNamespaces::*wanted;
    const char* word;
    int type;  ///< CLONE_NEW*
    const char* name;
};
inline constexpr NamespaceKind namespace_kinds[] = {{&OwnNamespaces::ipc, "ipc", CLONE_NEWIPC, "IPC"},
                                                    {&OwnNamespaces::net, "net", CLONE_NEWNET, "network"},
                                                    {&OwnNamespaces::uts, "uts", CLONE_NEWUTS, "UTS"},
                                                    {&OwnNamespaces::pid, "pid", CLONE_NEWPID, "PID"},
                                                    {&OwnNamespaces::cgroup, "cgroup", CLONE_NEWCGROUP, "cgroup"}};

/// The options of one start. What is unset is decided by the site.
struct Request {
    std::string environment;  ///< the file of the others' defaults, as written: a name or a path; empty: none
    std::optional<Reference> image;
    std::vector<MountRequest> mounts;
    std::vector<std::string> mount_texts;  ///< what `mounts` was made of, as written
    std::optional<std::string> workdir;
    std::vector<std::string> env;  ///< names whose host value beats the image's
    std::optional<bool> mount_home;
    std::optional<bool> remap_root;
    std::optional<bool> writable;
    std::optional<bool> nested;  ///< programs of the container may make user namespaces, and mount in them
    OwnNamespaces unshare;
    std::optional<ContainerName> name;  ///< of a container that stays
    std::string save;                   ///< file to save the container in after the last task, as written; empty: none
    std::optional<bool> entrypoint;     ///< run the image's before the tasks
    bool entrypoint_log = false;        ///< show what it says
    std::vector<std::string> variables;  ///< NAME=VALUE of an environment, with ${VAR}; an empty value unsets
    std::vector<std::string> devices;    ///< of an environment: CDI names, as in BERTH_DEVICES

    /// The image as written; empty without one.
    std::string image_text() const { return image ? image->written : std::string(); }
    bool operator==(const Request&) const = default;
};

/// Who asks, as the host sees it.
struct Caller {
    uid_t uid = 0;
    gid_t gid = 0;
    std::string user;   ///< login name; empty when the uid has no passwd entry
    std::string group;  ///< name of gid; empty when it has none
    std::string gecos;
    std::string home;   ///< empty when unknown
    bool home_of_environment = false;  ///< by HOME, for an account that no database has
    std::string shell;
    std::string shell_of_image;  ///< what the image has in place of `shell`; empty: that one, or nothing is known
    std::string cwd;    ///< working directory, absolute
    std::string terminal;  ///< "/dev/pts/3" when his command is to have that terminal itself; else empty
};

/// A file or folder of the node that a step sees at the same path.
struct JobPath {
    std::string path;  ///< absolute
    Origin origin;
};

/// What a Slurm step adds. All empty outside Slurm.
struct Job {
    std::string id;    ///< "JOB.STEP", for messages
    std::string node;  ///< node name, for messages
    bool has_terminal = false;  ///< of srun --pty: opened by Slurm, and to be found by its name
    /// files of the job that must stay visible at the same path (the batch script)
    std::vector<JobPath> bind_read_only;
    std::vector<std::string> accounts;        ///< lines of /etc/passwd that Slurm's commands look for
    /// of Slurm's MPI server with the tasks, at the same paths; those that exist
    std::vector<JobPath> shared_folders;
};

}  // namespace berth::plan
