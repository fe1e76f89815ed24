// SELinux, whose denials look like those of a file's mode.
#pragma once
#include <string>
#include <string_view>

namespace berth::sys {

/// The SELinux context of this process ("user_u:user_r:user_t:s0"); empty where SELinux is off or permissive.
std::string selinux_context();

/// The same of what the kernel has in /proc/self/attr/current, where AppArmor has its profile, and in
/// /sys/fs/selinux/enforce (empty: it cannot be read). Pure.
std::string selinux_context(std::string_view current, std::string_view enforce);

/// "; SELinux forbids WHAT to CONTEXT: ..." where to look for the rule that is missing; empty without a context. Pure.
std::string selinux_hint(const std::string& what, const std::string& context);

}  // namespace berth::sys
