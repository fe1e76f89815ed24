#include <cerrno>

#include "runtime/sandbox/user_namespace.hh"
#include "tests/catch.hh"

using namespace berth::sandbox;

TEST_CASE("what forbids user namespaces is named", "[sandbox]") {
    NamespaceSettings open;
    open.max_user_namespaces = 1000;
    open.max_mnt_namespaces = 1000;
    NamespaceSettings off = open, debian = open, ubuntu = open;
    off.max_user_namespaces = 0;
    debian.unprivileged_userns_clone = 0;
    ubuntu.apparmor_restrict_unprivileged_userns = 1;

    using Catch::Contains;
    CHECK_THAT(namespace_hint(ENOSPC, off), Contains("sysctl -w user.max_user_namespaces"));
    CHECK_THAT(namespace_hint(EPERM, debian), Contains("kernel.unprivileged_userns_clone=1"));
    CHECK_THAT(namespace_hint(EPERM, ubuntu), Contains("kernel.apparmor_restrict_unprivileged_userns=0"));
    CHECK_THAT(namespace_hint(EACCES, ubuntu), Contains("AppArmor"));
    CHECK_THAT(namespace_hint(ENOSPC, open), Contains("user.max_user_namespaces=1000"));
    CHECK_THAT(namespace_hint(EPERM, open), Contains("seccomp"));
    CHECK_THAT(namespace_hint(EINVAL, open), Contains("CONFIG_USER_NS"));
    NamespaceSettings selinux = open;
    selinux.selinux_context = "user_u:user_r:user_t:s0";
    CHECK_THAT(namespace_hint(EACCES, selinux), Contains("SELinux forbids them to user_u:user_r:user_t:s0"));
    CHECK_THAT(namespace_hint(EPERM, selinux), Contains("seccomp"));
    CHECK(namespace_hint(ENOMEM, open).empty());
}
