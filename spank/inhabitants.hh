// The processes of a container, seen from outside: for when its own server can no longer end them.
#pragma once
#include <sys/types.h>

#include <optional>

namespace berth::spank {

/// Names a user namespace while it exists.
struct NamespaceId {
    dev_t device;
    ino_t inode;
    bool operator==(const NamespaceId&) const = default;
};

/// The user namespace of a process; nothing when there is no such process.
std::optional<NamespaceId> user_namespace_of(pid_t pid);

/// Kills all processes in the namespace, also those that they fork meanwhile. Gives up after about a second.
void kill_inhabitants(const NamespaceId& user_namespace);

}  // namespace berth::spank
