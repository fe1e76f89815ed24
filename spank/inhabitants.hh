// The processes of a container, seen from outside: for when its own server can no longer end them.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace berth::spank {

/// Names a user namespace while it exists.
struct NamespaceId {
    dev_t device;
    ino_t inode;
    bool operator==(const NamespaceId&) const = default;
};

/// The user namespace of a process; nothing when there is no such process.
std::optional<NamespaceId> user_namespace_of(pid_t pid);

/// The user namespace of the container that a process lives in, which is the process's own one or that in which it was
/// made, and so on: the one that was made in the caller's. Nothing when there is no such process, or it lives in no
/// namespace below the caller's.
std::optional<NamespaceId> container_of(pid_t pid);

/// Kills all processes in the namespace and in those made in it, also those that they fork meanwhile. Gives up after
/// about a second.
void kill_inhabitants(const NamespaceId& user_namespace);

/// Kills the processes of a group that are in the session. Unlike kill(2) for the group it can hit no other's that has
/// got the same number meanwhile, when the session is the caller's.
void kill_group(pid_t group, pid_t session);

/// Kills what serves the container of a task: of the processes in the container's user namespace (container_of()) those
/// in a leaf (cgroup.hh) and those that execute `program` or one of its name, as of another release. Does not
/// wait for their ends.
void kill_server_of(pid_t task, const std::string& program);

}  // namespace berth::spank
