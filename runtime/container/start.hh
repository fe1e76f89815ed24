// Starting a container: the table of contents of what a Plan becomes.
#pragma once
#include <linux/capability.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/pid.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/plan/plan.hh"
#include "runtime/telemetry/event.hh"

namespace berth {

/// What a server keeps: CAP_SYS_PTRACE, for end_container(). No privilege over the node: any process has it in a user
/// namespace of its own.
inline constexpr uint64_t kept_capabilities = 1ULL << CAP_SYS_PTRACE;

/// Where a container writes to.
struct ContainerStorage {
    /// a folder with the directories upper and work; empty: memory, gone with the container
    std::string path;
    std::string source = "berth";  ///< name of its root in the mount table
    std::string setting = "data.path or BERTH_DATA_PATH";  ///< where that is said
    bool in_place = false;         ///< what is written goes to the image itself, which is a directory
    bool saved = false;            ///< what it has written to memory becomes an image at its end
};

/// A namespace besides those of users and mounts that a container has of its own.
struct OwnNamespace {
    int type;  ///< CLONE_NEW*
    Fd fd;
};

/// A container that runs. The descriptors are all that a process needs to join it.
struct StartedContainer {
    Fd user_namespace, mount_namespace;
    std::string workdir;          ///< absolute, in the container
    std::vector<std::string> other_workdirs;  ///< the first of these that can be entered is in place of one that cannot
    std::string seccomp_program;  ///< of sandbox::system_call_filter(); empty: none
    uint64_t capabilities = 0;    ///< that tasks keep (bits 1 << CAP_*)
    Fd proc;                      ///< the node's /proc (O_PATH); empty in a copy made for joining
    store::Lease lease;           ///< of the image; empty in such a copy too
    Fd hot;                       ///< see HotFolder::lease; empty in such a copy too
    Fd upper;                     ///< the directory of what it writes, outside of its mounts; empty in such a copy too
    std::vector<OwnNamespace> namespaces;
    Pid init;             ///< first process of its own pid namespace, a child of the server; empty: see `lease`
    bool adopts = false;  ///< see adopt_orphans()
    Pid prefetcher;  ///< see prefetcher.hh; none in such a copy
    std::vector<Pid> data_sweeps;  ///< see data_sweep.hh; none in such a copy
    std::function<void()> keep_reads;  ///< see ReadsOfImage; end_container() calls it
    std::vector<plan::PhaseTime> phases;  ///< of its start; in such a copy those that its server has sent
};

/// A mount of the root of a container that runs, without what is mounted on it, and writable whatever that one is: for
/// another container over the same files. It is attached nowhere, and usable in any mount namespace of the same user.
/// The file server stays that of the container. Throws Error.
Fd container_root(const StartedContainer& container);

/// Turns the calling process, which has one thread, into the container's server: enters new namespaces, serves the
/// image from threads and executes the plan. Afterwards its root is the container's, its capabilities are in effect no
/// more, and it is closed to other processes. The container lives as long as it does. Throws Error; the process can
/// then do nothing but report it. Its working directory and umask change.
StartedContainer start_container(const plan::Plan& plan, ContainerImage image, const plan::Site& site,
                                 const ContainerStorage& storage = {});

/// For a process that is to become a task: a child of the server, or any process of the same user in the namespaces of
/// the server's start. Joins the namespaces, enters the working directory, gives up all capabilities but
/// container.capabilities, sets no_new_privs, installs the filter and leaves the session keyring. Throws Error.
void join_container(const StartedContainer& container);

/// The descriptors of `container` that entering it takes.
std::vector<int> descriptors_to_enter(const StartedContainer& container);

/// The two parts of join_container(). A pid namespace holds only for children that are made after the first part; the
/// server's have it from birth.
void enter_container(const StartedContainer& container);
void become_task(const StartedContainer& container);

/// From here on every process that loses its parent in the container becomes a child of the server, so that
/// end_container() need not look for them. For a server whose children are the only ones that join.
void adopt_orphans(StartedContainer& container);

/// Why a container has ended, as its helper sent over the connection, which has become readable.
std::string reason_of_end(int connection);

/// Kills every process of the container except the calling one, its server, and waits up to `timeout` for their ends.
/// False: some are left.
bool end_container(StartedContainer& container, std::chrono::milliseconds timeout = std::chrono::seconds(4));

}  // namespace berth
