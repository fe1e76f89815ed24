#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/sandbox/seccomp.hh"
#include "tests/catch.hh"

using namespace berth;

namespace {

/// The values that a program returns.
std::set<uint32_t> returned(const std::string& program) {
    std::set<uint32_t> out;
    for (size_t at = 0; at + sizeof(sock_filter) <= program.size(); at += sizeof(sock_filter)) {
        sock_filter step;
        memcpy(&step, program.data() + at, sizeof step);
        if (BPF_CLASS(step.code) == BPF_RET) out.insert(step.k);
    }
    return out;
}

/// The values that a program compares with.
std::set<uint32_t> compared(const std::string& program) {
    std::set<uint32_t> out;
    for (size_t at = 0; at + sizeof(sock_filter) <= program.size(); at += sizeof(sock_filter)) {
        sock_filter step;
        memcpy(&step, program.data() + at, sizeof step);
        if (BPF_CLASS(step.code) == BPF_JMP && BPF_OP(step.code) == BPF_JEQ) out.insert(step.k);
    }
    return out;
}

uint32_t error(uint32_t number) {
    return SECCOMP_RET_ERRNO | number;
}

}  // namespace

TEST_CASE("the filter is a program that allows, fakes and refuses as it is told", "[sandbox]") {
    CHECK(sandbox::system_call_filter({}).empty());
    std::string fake = sandbox::system_call_filter({.confine = false, .fake_root = true, .allow = {}, .deny = {}});
    std::string confined = sandbox::system_call_filter({.confine = true, .fake_root = false, .allow = {}, .deny = {}});
    std::string both = sandbox::system_call_filter({.confine = true, .fake_root = true, .allow = {}, .deny = {}});
    for (const std::string& program : {fake, confined, both}) {
        REQUIRE(program.size() % sizeof(sock_filter) == 0);
        // It travels in one message of the helper.
        CHECK(program.size() <= 16 << 10);
    }
    CHECK(returned(fake) == std::set<uint32_t>{SECCOMP_RET_ALLOW, error(0)});
    CHECK(returned(confined) ==
          std::set<uint32_t>{SECCOMP_RET_ALLOW, error(EPERM), error(ENOSYS), error(EAFNOSUPPORT)});
    CHECK(returned(both) ==
          std::set<uint32_t>{SECCOMP_RET_ALLOW, error(0), error(EPERM), error(ENOSYS), error(EAFNOSUPPORT)});
}

TEST_CASE("the filters made with berth are those that a start would build", "[sandbox]") {
    for (bool fake_root : {false, true})
        for (bool x32 : {false, true}) {
            sandbox::FilterRules rules{.confine = true, .fake_root = fake_root, .allow = {}, .deny = {}, .x32 = x32};
            CHECK(sandbox::filter_for(rules) == sandbox::system_call_filter(rules));
            rules.deny = {"ptrace"};
            CHECK(sandbox::filter_for(rules) == sandbox::system_call_filter(rules));
        }
}

#ifdef __x86_64__
TEST_CASE("the x32 forms of the calls are in the filter unless it is told that there are none", "[sandbox]") {
    sandbox::FilterRules rules{.confine = true, .fake_root = true, .allow = {}, .deny = {}};
    std::set<uint32_t> with = compared(sandbox::filter_for(rules));
    rules.x32 = false;
    std::set<uint32_t> without = compared(sandbox::filter_for(rules));
    // asm/unistd.h: the x32 form of a call has this bit in its number.
    constexpr uint32_t x32 = 0x40000000;
    for (uint32_t call : {SYS_bpf, SYS_unshare, SYS_keyctl, SYS_chown, SYS_setuid}) {
        INFO("call " << call);
        CHECK(without.contains(call));
        CHECK(with.contains(call));
        CHECK(with.contains(call | x32));
        CHECK_FALSE(without.contains(call | x32));
    }
}
#endif

TEST_CASE("a site's names join the rules whatever they are, and unknown ones are refused", "[sandbox]") {
    sandbox::FilterRules rules{.confine = true,
                               .fake_root = true,
                               .allow = {"unshare", "clone", "socket", "keyctl"},
                               .deny = {"ptrace", "chown", "mknod", "bpf"}};
    CHECK(returned(sandbox::system_call_filter(rules)) ==
          std::set<uint32_t>{SECCOMP_RET_ALLOW, error(0), error(EPERM)});
    rules.deny = {"clone", "unshare", "socket", "clone3", "socketcall"};
    rules.allow = {};
    CHECK_NOTHROW(sandbox::system_call_filter(rules));
    rules.allow = {"no_such_call"};
    CHECK_THROWS_WITH(sandbox::system_call_filter(rules),
                      Catch::Contains("no_such_call") && Catch::Contains("security.seccomp_allow"));
    CHECK_THROWS_WITH(
        sandbox::system_call_filter({.confine = false, .fake_root = false, .allow = {}, .deny = {"no_such_call"}}),
        Catch::Contains("security.seccomp_deny"));
}

TEST_CASE("what is no filter is not installed", "[sandbox]") {
    CHECK_NOTHROW(sandbox::install_filter(""));
    CHECK_THROWS_AS(sandbox::install_filter("abc"), Error);
    CHECK_THROWS_AS(sandbox::install_filter(std::string(8 * 5000, 'x')), Error);
}
