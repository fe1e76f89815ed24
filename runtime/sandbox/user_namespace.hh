// Entering a user and mount namespace of one's own, and saying what forbids it when that fails.
#pragma once
#include <optional>
#include <string>

#include "runtime/plan/plan.hh"

namespace berth::sandbox {

/// Moves the calling process (of one thread) into a new user and mount namespace in which the host ids of `identity`
/// are shown as the inside ones, and setgroups is denied, so that supplementary groups stay. Afterwards the process has
/// all capabilities in it. Throws Error that names the setting in the way.
void enter_user_namespace(const plan::Identity& identity);

/// The kernel's settings that can forbid user namespaces; empty where the kernel has no such setting.
struct NamespaceSettings {
    std::optional<long> max_user_namespaces;                    ///< /proc/sys/user/max_user_namespaces
    std::optional<long> max_mnt_namespaces;                     ///< /proc/sys/user/max_mnt_namespaces
    std::optional<long> unprivileged_userns_clone;              ///< /proc/sys/kernel/unprivileged_userns_clone (Debian)
    /// /proc/sys/kernel/apparmor_restrict_unprivileged_userns (Ubuntu)
    std::optional<long> apparmor_restrict_unprivileged_userns;
    std::string selinux_context = {};  ///< as sys::selinux_context() has it
};

NamespaceSettings namespace_settings();

/// What an administrator has to change, given the errno value of unshare(2) or of writing the id maps; starts with "; "
/// or is empty. Pure.
std::string namespace_hint(int number, const NamespaceSettings& settings);

}  // namespace berth::sandbox
