#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/sandbox/seccomp.hh"
#include "tests/catch.hh"
#include "tests/fixtures/filter_run.hh"

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

TEST_CASE("a filter that fakes changes of owner is a prepared one behind a head of its own", "[sandbox]") {
    for (bool x32 : {false, true}) {
        sandbox::FilterRules rules{.confine = true, .allow = {}, .deny = {}, .x32 = x32};
        std::string plain = sandbox::system_call_filter(rules);
        rules.own_ids = {1000, 100};
        std::string whole = sandbox::filter_for(rules);
        CHECK(whole == sandbox::system_call_filter(rules));
        CHECK(whole == sandbox::fake_chown({1000, 100}, {}, x32) + plain);
        // The kernel limits a program to 4096 instructions, and it travels in one message of the helper.
        CHECK(whole.size() <= 16 << 10);
        // Nothing else changes with the ids than the ids.
        rules.own_ids = {70000, 70001};
        std::string other = sandbox::filter_for(rules);
        REQUIRE(other.size() == whole.size());
        for (size_t at = 0; at < whole.size(); at += sizeof(sock_filter)) {
            sock_filter one = fixtures::instruction_at(whole, at), two = fixtures::instruction_at(other, at);
            if (one.k == 1000) two.k = two.k == 70000 ? 1000 : two.k;
            if (one.k == 100) two.k = two.k == 70001 ? 100 : two.k;
            CHECK(memcmp(&one, &two, sizeof one) == 0);
        }
    }
    // Root inside has its own way, in which no id counts.
    sandbox::FilterRules root{.confine = true, .fake_root = true, .allow = {}, .deny = {}};
    std::string plain = sandbox::filter_for(root);
    root.own_ids = {0, 0};
    CHECK(sandbox::filter_for(root) == plain);
    // Without a list of refused calls too.
    CHECK(returned(sandbox::filter_for({.own_ids = sandbox::OwnIds{1000, 100}})) ==
          std::set<uint32_t>{SECCOMP_RET_ALLOW, error(0)});
}

namespace {

/// What a filter answers to a call of an architecture of libseccomp's.
uint32_t answer_to(const std::string& program, uint32_t audit, uint32_t architecture, const char* name,
                   std::initializer_list<uint64_t> arguments = {}) {
    seccomp_data call{};
    call.arch = audit;
    call.nr = seccomp_syscall_resolve_name_arch(architecture, name);
    // For libseccomp the direct call of 32-bit programs and that by socketcall are one, without a number.
    if (audit == AUDIT_ARCH_I386 && name == std::string("socket")) call.nr = 359;
    REQUIRE(call.nr >= 0);
    std::ranges::copy(arguments, call.args);
    return fixtures::run_filter(program, call);
}

#ifdef __aarch64__
constexpr uint32_t native_audit = AUDIT_ARCH_AARCH64, native = SCMP_ARCH_AARCH64;
#else
constexpr uint32_t native_audit = AUDIT_ARCH_X86_64, native = SCMP_ARCH_X86_64;
#endif

}  // namespace

TEST_CASE("what users may do on the node anyway is let through, and keyrings are not", "[sandbox]") {
    auto answers = [](const sandbox::FilterRules& rules, const char* name, uint64_t argument) {
        return answer_to(sandbox::filter_for(rules), native_audit, native, name, {argument});
    };
    sandbox::FilterRules rules{.confine = true, .allow = {}, .deny = {}};
    for (const char* name : {"io_uring_setup", "io_uring_enter", "io_uring_register"}) {
        INFO(name);
        CHECK(answers(rules, name, 1) == SECCOMP_RET_ALLOW);
        CHECK(answers({.confine = true, .allow = {}, .deny = {name}}, name, 1) == error(EPERM));
    }
    constexpr uint64_t user_mode_only = 1, close_on_exec = 02000000;
    CHECK(answers(rules, "userfaultfd", user_mode_only | close_on_exec) == SECCOMP_RET_ALLOW);
    CHECK(answers(rules, "userfaultfd", close_on_exec) == error(EPERM));
    CHECK(answers(rules, "userfaultfd", user_mode_only << 32) == error(EPERM));
    CHECK(answers({.confine = true, .allow = {"userfaultfd"}, .deny = {}}, "userfaultfd", 0) == SECCOMP_RET_ALLOW);
    CHECK(answers({.confine = true, .allow = {}, .deny = {"userfaultfd"}}, "userfaultfd", user_mode_only) ==
          error(EPERM));
    for (const char* name : {"keyctl", "add_key", "request_key"}) {
        INFO(name);
        CHECK(answers(rules, name, 1) == error(EPERM));
        CHECK(answers({.confine = true, .allow = {name}, .deny = {}}, name, 1) == SECCOMP_RET_ALLOW);
    }
}

TEST_CASE("32-bit programs have sockets by socketcall, whose family no filter can see", "[sandbox]") {
    sandbox::FilterRules rules{.confine = true, .allow = {}, .deny = {}};
    auto family = [&](uint64_t number) {
        return answer_to(sandbox::filter_for(rules), native_audit, native, "socket", {number});
    };
    CHECK(family(AF_ALG) == error(EAFNOSUPPORT));
    CHECK(family(AF_VSOCK) == error(EAFNOSUPPORT));
    CHECK(family(AF_INET) == SECCOMP_RET_ALLOW);
    CHECK(family(AF_UNIX) == SECCOMP_RET_ALLOW);
#ifdef __x86_64__
    auto answers = [&](const char* name, uint64_t argument) {
        return answer_to(sandbox::filter_for(rules), AUDIT_ARCH_I386, SCMP_ARCH_X86, name, {argument});
    };
    // From linux/net.h: SYS_SOCKET is 1, SYS_RECVMMSG 19.
    for (uint64_t operation = 0; operation <= 20; ++operation)
        CHECK(answers("socketcall", operation) == SECCOMP_RET_ALLOW);
    CHECK(answers("socket", AF_ALG) == error(EAFNOSUPPORT));
    CHECK(answers("socket", AF_INET) == SECCOMP_RET_ALLOW);
    // What a site gives the refusal back by.
    rules.deny = {"socketcall"};
    CHECK(answers("socketcall", 1) == error(EPERM));
    CHECK(answers("socketcall", 3) == error(EPERM));
    CHECK(answers("socket", AF_ALG) == error(EAFNOSUPPORT));
    rules.deny = {"socket"};
    CHECK(answers("socketcall", 1) == error(EPERM));
    CHECK(answers("socket", AF_INET) == error(EPERM));
    rules = {.confine = true, .allow = {"socket"}, .deny = {}};
    CHECK(answers("socketcall", 1) == SECCOMP_RET_ALLOW);
    CHECK(answers("socket", AF_ALG) == SECCOMP_RET_ALLOW);
#endif
}

TEST_CASE("root inside makes no device nodes, but what marks a removed file in an overlay", "[sandbox]") {
    std::string program = sandbox::filter_for({.confine = true, .fake_root = true, .allow = {}, .deny = {}});
    auto made = [&](uint64_t mode, uint64_t device) {
        return answer_to(program, native_audit, native, "mknodat", {0, 0, mode, device});
    };
    CHECK(made(S_IFCHR | 0666, 259) == error(0));
    CHECK(made(S_IFBLK | 0660, 0x800) == error(0));
    CHECK(made(S_IFBLK | 0660, 0) == error(0));
    CHECK(made(S_IFCHR, 0) == SECCOMP_RET_ALLOW);
    CHECK(made(S_IFIFO | 0600, 0) == SECCOMP_RET_ALLOW);
    CHECK(made(S_IFREG | 0600, 259) == SECCOMP_RET_ALLOW);
}

namespace {

constexpr uint64_t unchanged = 0xffffffff, unchanged_short = 0xffff;

/// A form of the call: its number comes of libseccomp's table, as those of the rest of the filter do.
struct Form {
    uint32_t audit, architecture;
    const char* name;
    unsigned uid_argument;
    bool is_short;
};

const std::vector<Form>& forms() {
    static const std::vector<Form> all = {
#ifdef __x86_64__
        {AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64, "chown", 1, false},
        {AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64, "lchown", 1, false},
        {AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64, "fchown", 1, false},
        {AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64, "fchownat", 2, false},
        {AUDIT_ARCH_X86_64, SCMP_ARCH_X32, "chown", 1, false},
        {AUDIT_ARCH_X86_64, SCMP_ARCH_X32, "fchownat", 2, false},
        {AUDIT_ARCH_I386, SCMP_ARCH_X86, "chown", 1, true},
        {AUDIT_ARCH_I386, SCMP_ARCH_X86, "lchown", 1, true},
        {AUDIT_ARCH_I386, SCMP_ARCH_X86, "fchown", 1, true},
        {AUDIT_ARCH_I386, SCMP_ARCH_X86, "chown32", 1, false},
        {AUDIT_ARCH_I386, SCMP_ARCH_X86, "lchown32", 1, false},
        {AUDIT_ARCH_I386, SCMP_ARCH_X86, "fchown32", 1, false},
        {AUDIT_ARCH_I386, SCMP_ARCH_X86, "fchownat", 2, false},
#elif defined(__aarch64__)
        {AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64, "fchown", 1, false},
        {AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64, "fchownat", 2, false},
        {AUDIT_ARCH_ARM, SCMP_ARCH_ARM, "chown", 1, true},
        {AUDIT_ARCH_ARM, SCMP_ARCH_ARM, "fchown32", 1, false},
        {AUDIT_ARCH_ARM, SCMP_ARCH_ARM, "fchownat", 2, false},
#endif
    };
    return all;
}

uint32_t answer(const std::string& program, const Form& form, uint64_t uid, uint64_t gid) {
    seccomp_data call{};
    call.arch = form.audit;
    call.nr = seccomp_syscall_resolve_name_arch(form.architecture, form.name);
    REQUIRE(call.nr >= 0);
    call.args[form.uid_argument] = uid;
    call.args[form.uid_argument + 1] = gid;
    // What is beside the ids is a path, flags, or what was left in a register.
    for (unsigned i = 0; i < 6; ++i)
        if (i != form.uid_argument && i != form.uid_argument + 1) call.args[i] = 4242;
    return fixtures::run_filter(program, call);
}

}  // namespace

TEST_CASE("changes of owner to own ids are the kernel's in each form of the calls, and others return 0", "[sandbox]") {
    const uint64_t high = 0xabcd00000000;
    for (bool confine : {false, true})
        for (const Form& form : forms()) {
            INFO(form.name << " of " << form.architecture << (confine ? ", confined" : ""));
            std::string program =
                sandbox::filter_for({.confine = confine, .own_ids = sandbox::OwnIds{1000, 100}});
            const uint64_t none = form.is_short ? unchanged_short : unchanged;
            // The kernel takes the lower half of a register, and of it the lower half again in the old forms.
            const uint64_t above = form.is_short ? 0x50000 : high;
            for (uint64_t uid : {uint64_t{1000}, none, 1000 | above, none | above, ~uint64_t{0}})
                for (uint64_t gid : {uint64_t{100}, none, 100 | above, none | above, ~uint64_t{0}}) {
                    INFO(uid << ":" << gid);
                    CHECK(answer(program, form, uid, gid) == SECCOMP_RET_ALLOW);
                    for (uint64_t other : {uint64_t{0}, uint64_t{5}, uint64_t{999}, uint64_t{1001}, none - 1}) {
                        CHECK(answer(program, form, other, gid) == error(0));
                        CHECK(answer(program, form, uid, other) == error(0));
                        CHECK(answer(program, form, other | above, other | above) == error(0));
                    }
                }
            // The user's id is no group's, nor the other way round.
            CHECK(answer(program, form, 100, none) == error(0));
            CHECK(answer(program, form, none, 1000) == error(0));
        }
}

TEST_CASE("an id of more than 16 bits is nobody's in the old forms of chown", "[sandbox]") {
    std::string program = sandbox::filter_for({.confine = true, .own_ids = sandbox::OwnIds{70000, 70001}});
    for (const Form& form : forms()) {
        INFO(form.name << " of " << form.architecture);
        CHECK(answer(program, form, 70000, 70001) == (form.is_short ? error(0) : SECCOMP_RET_ALLOW));
        CHECK(answer(program, form, form.is_short ? unchanged_short : unchanged, 70000 & 0xffff) == error(0));
    }
}

TEST_CASE("what is no change of owner goes by a filter that fakes these, whatever its arguments", "[sandbox]") {
    std::string plain = sandbox::filter_for({.confine = true}),
                faking = sandbox::filter_for({.confine = true, .own_ids = sandbox::OwnIds{1000, 100}});
    std::set<uint32_t> audits = {0, 1, AUDIT_ARCH_S390X};
    for (const Form& form : forms()) audits.insert(form.audit);
    for (uint32_t audit : audits)
        for (int number = 0; number < 600; ++number) {
            bool is_faked = std::ranges::any_of(forms(), [&](const Form& form) {
                return form.audit == audit && seccomp_syscall_resolve_name_arch(form.architecture, form.name) == number;
            });
            if (is_faked) continue;
            seccomp_data call{number, audit, 0, {5, 5, 5, 5, 5, 5}};
            INFO(audit << ": call " << number);
            CHECK(fixtures::run_filter(faking, call) == fixtures::run_filter(plain, call));
        }
}

TEST_CASE("a change of owner that the site refuses is refused", "[sandbox]") {
    for (const Form& form : forms()) {
        std::string program = sandbox::filter_for(
            {.confine = true, .allow = {}, .deny = {form.name}, .own_ids = sandbox::OwnIds{1000, 100}});
        INFO(form.name << " of " << form.architecture);
        CHECK(answer(program, form, 5, 5) == error(EPERM));
        CHECK(answer(program, form, 1000, 100) == error(EPERM));
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

TEST_CASE("berth.conf(5) names every call that is refused", "[sandbox]") {
    std::string page = sys::read_file("man/berth.conf.5");
    size_t begin = page.find("It Li security.seccomp\n"), end = page.find("It Li security.seccomp_allow");
    REQUIRE((begin != page.npos && end != page.npos));
    std::string words = page.substr(begin, end - begin);
    std::ranges::replace_if(words, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; }, ' ');
    for (const std::string& name : sandbox::refused_calls()) CHECK_THAT(words, Catch::Contains(" " + name + " "));
}

TEST_CASE("what is allowed is not pretended for root inside either", "[sandbox]") {
    sandbox::FilterRules rules{.confine = true, .fake_root = true, .allow = {"capset"}, .x32 = false};
    CHECK_FALSE(compared(sandbox::system_call_filter(rules)).contains(SYS_capset));
    CHECK(compared(sandbox::system_call_filter(rules)).contains(SYS_setuid));
    rules.allow = {};
    CHECK(compared(sandbox::system_call_filter(rules)).contains(SYS_capset));
}

TEST_CASE("what is no filter is not installed", "[sandbox]") {
    CHECK_NOTHROW(sandbox::install_filter(""));
    CHECK_THROWS_AS(sandbox::install_filter("abc"), Error);
    CHECK_THROWS_AS(sandbox::install_filter(std::string(8 * 5000, 'x')), Error);
}
