#include "runtime/sandbox/user_namespace.hh"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/selinux.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::sandbox {

namespace {

std::optional<long> setting(const char* path) {
    try {
        return std::strtol(sys::read_file(path, 64).c_str(), nullptr, 10);
    } catch (const Error&) {
        return std::nullopt;
    }
}

void write_map(const char* file, const std::string& text) {
    Fd fd = sys::open_file(file, O_WRONLY);
    sys::write_all(fd.get(), text, file);
}

}  // namespace

NamespaceSettings namespace_settings() {
    return {setting("/proc/sys/user/max_user_namespaces"), setting("/proc/sys/user/max_mnt_namespaces"),
            setting("/proc/sys/kernel/unprivileged_userns_clone"),
            setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"), sys::selinux_context()};
}

std::string namespace_hint(int number, const NamespaceSettings& settings) {
    if (settings.max_user_namespaces == 0) return "; user namespaces are off: sysctl -w user.max_user_namespaces=15000";
    if (settings.unprivileged_userns_clone == 0)
        return "; they are off for users: sysctl -w kernel.unprivileged_userns_clone=1";
    if (number == ENOSPC)
        return cat("; the limits are user.max_user_namespaces=", settings.max_user_namespaces.value_or(0),
                   " and user.max_mnt_namespaces=", settings.max_mnt_namespaces.value_or(0),
                   " (sysctl), and 32 levels of nesting");
    if (settings.apparmor_restrict_unprivileged_userns.value_or(0) != 0 && (number == EPERM || number == EACCES))
        return "; AppArmor forbids them: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or a profile for "
               "berth with the rule userns";
    // What else forbids them gives EPERM.
    if (number == EACCES && !settings.selinux_context.empty())
        return sys::selinux_hint("them", settings.selinux_context);
    if (number == EPERM || number == EACCES)
        return "; a seccomp filter, a chroot or a security module forbids them to this process";
    if (number == EINVAL || number == ENOSYS)
        return "; the kernel was built without CONFIG_USER_NS, or the process has several threads";
    return {};
}

void enter_user_namespace(const plan::Identity& identity) {
    if (int number = sys::unshare(CLONE_NEWUSER | CLONE_NEWNS); number != 0)
        throw Error(cat("creating a user namespace: ", reason(number), namespace_hint(number, namespace_settings())));
    try {
        write_map("/proc/self/setgroups", "deny");
        write_map("/proc/self/uid_map", cat(identity.inside_uid, " ", identity.host_uid, " 1"));
        write_map("/proc/self/gid_map", cat(identity.inside_gid, " ", identity.host_gid, " 1"));
    } catch (const SysError& error) {
        throw Error(
            cat("setting up the user namespace: ", error.what(), namespace_hint(error.number(), namespace_settings())));
    }
}

}  // namespace berth::sandbox
