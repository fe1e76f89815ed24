#include "runtime/base/selinux.hh"

#include "tests/catch.hh"

using namespace berth::sys;

TEST_CASE("selinux: the context is named where the policy is enforced", "[selinux]") {
    auto [current, enforce, expected] = GENERATE(table<std::string, std::string, std::string>({
        {std::string("user_u:user_r:user_t:s0\0", 24), "1", "user_u:user_r:user_t:s0"},
        {"root:sysadm_r:sysadm_t:s0-s0:c0.c1023\n", "", "root:sysadm_r:sysadm_t:s0-s0:c0.c1023"},
        {"user_u:user_r:user_t", "1", "user_u:user_r:user_t"},
        {"user_u:user_r:user_t:s0", "0", ""},
        {"kernel", "", ""},
        {"unconfined\n", "", ""},
        {":a:b:/usr/bin/berth (enforce)\n", "", ""},
        {"", "", ""},
    }));
    CHECK(selinux_context(current, enforce) == expected);
}

TEST_CASE("selinux: a hint names what is denied to whom", "[selinux]") {
    CHECK(selinux_hint("mounts", "u:r:t") ==
          "; SELinux forbids mounts to u:r:t: ausearch -m avc -ts recent has the denial");
    CHECK(selinux_hint("mounts", "").empty());
}
