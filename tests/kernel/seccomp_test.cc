// The system call filter as a task meets it.
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <initializer_list>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

std::string call(long number, long a = 0, long b = 0, long c = 0) {
    return verdict(syscall(number, a, b, c));
}

/// What `body` returns in a task of a container whose plan `change` has changed.
Outcome with_plan(const std::function<void(plan::Plan&)>& change, const std::function<std::string()>& body) {
    plan::Plan plan = plan_for();
    change(plan);
    return in_container(plan, fill_sample, body);
}

#ifdef __x86_64__
/// A system call as 32-bit programs make it.
long call_32(long number, long a, long b = 0, long c = 0) {
    long result;
    asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}

/// Where the kernel or its virtual machine has no way in for 32-bit programs, the instruction is SIGSEGV.
bool has_32_bit_calls() {
    pid_t child = fixtures::forked();
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);
        _exit(call_32(20, 0) == getpid() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return !WIFSIGNALED(status);
}
#endif

}  // namespace

TEST_CASE("seccomp: what widens the kernel's surface is refused to a task", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    Outcome seen = with_plan([](plan::Plan&) {}, [] {
        std::string out;
        for (long number :
             {long{SYS_keyctl}, long{SYS_add_key}, long{SYS_request_key}, long{SYS_bpf}, long{SYS_mount},
              long{SYS_pivot_root}, long{SYS_userfaultfd}, long{SYS_open_by_handle_at}, long{SYS_setns},
              long{SYS_fsopen}, long{SYS_open_tree}, long{SYS_init_module}, long{SYS_kexec_load}, long{SYS_reboot}})
            if (std::string said = call(number); said != "Operation not permitted") out += cat(number, ": ", said, " ");
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "");
}

TEST_CASE("hostile: seccomp: a task cannot type into the terminal of whoever started it", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    auto tried = [] {
        std::string out;
        char typed = 'x';
        // The kernel takes the lower half of the number.
        for (unsigned long request : {0UL + TIOCSTI, (1UL << 32) | TIOCSTI, 0UL + TIOCLINUX, 0UL + TIOCGWINSZ})
            out += call(SYS_ioctl, 0, static_cast<long>(request), reinterpret_cast<long>(&typed)) + "; ";
        return out + call(SYS_socket, (1L << 32) | AF_ALG, SOCK_SEQPACKET, 0);
    };
    const std::string refused = "Operation not permitted; ", no_terminal = "Inappropriate ioctl for device; ";
    Outcome seen = with_plan([](plan::Plan&) {}, tried);
    CHECK(seen.error == "");
    CHECK(seen.text == refused + refused + refused + no_terminal + "Address family not supported by protocol");
    Outcome allowed = with_plan([](plan::Plan& plan) { plan.system_calls.allow = {"ioctl"}; }, tried);
    CHECK(allowed.error == "");
    CHECK(allowed.text ==
          no_terminal + no_terminal + no_terminal + no_terminal + "Address family not supported by protocol");
}

TEST_CASE("seccomp: no new namespaces", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    Outcome seen = with_plan([](plan::Plan&) {}, [] {
        return in_order({call(SYS_unshare, CLONE_NEWUSER), call(SYS_unshare, CLONE_NEWNET | CLONE_FILES),
                         call(SYS_unshare, CLONE_FILES), call(SYS_clone, CLONE_NEWUSER | SIGCHLD), call(SYS_clone3),
                         output_of({"/bin/inside"})});
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("Operation not permitted Operation not permitted ok Operation not "
                                            "permitted Function not implemented inside uid="));
}

TEST_CASE("seccomp: clone3 sends the C library to clone", "[kernel][seccomp][one-thread]") {
    NEED_CONTAINERS();
    Outcome seen = with_plan([](plan::Plan&) {}, [] {
        bool ran = false;
        std::thread([&] { ran = true; }).join();
        return std::string(ran ? "threads run" : "no thread");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "threads run");
}

TEST_CASE("seccomp: AF_ALG and AF_VSOCK are refused, other sockets are not", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    Outcome seen = with_plan([](plan::Plan&) {}, [] {
        auto open = [](int family, int type) { return socket(family, type, 0) < 0 ? verdict(-1) : std::string("ok"); };
        return in_order({open(AF_ALG, SOCK_SEQPACKET), open(AF_VSOCK, SOCK_STREAM), open(AF_UNIX, SOCK_STREAM),
                         open(AF_INET, SOCK_STREAM), open(AF_NETLINK, SOCK_RAW)});
    });
    CHECK(seen.error == "");
    std::string refused = "Address family not supported by protocol ";
    CHECK(seen.text == refused + refused + "ok ok ok");
}

TEST_CASE("seccomp: what MPI, NUMA libraries and debuggers use works", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    Outcome seen = with_plan([](plan::Plan&) {}, [] {
        char from[] = "rank", to[8] = {};
        iovec there{from, sizeof from}, here{to, sizeof to};
        bool copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof from;
        int mode = 0;
        long policy = syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0);
        pid_t child = fixtures::forked();
        if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
        int status = 0;
        waitpid(child, &status, 0);
        return cat(copied, policy == 0 || errno != EPERM, status == 0);
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "111");
}

#ifdef __x86_64__
TEST_CASE("seccomp: the 32-bit way in is guarded too", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    Outcome seen = with_plan([](plan::Plan&) {}, [] {
        // Catch's handler would report a failure of the test from here.
        std::signal(SIGSEGV, SIG_DFL);
        // From arch/x86/entry/syscalls/syscall_32.tbl: getpid, add_key, socket, unshare, userfaultfd.
        return in_order({cat(call_32(20, 0) == getpid()), cat(call_32(286, 0)), cat(call_32(359, AF_ALG)),
                         cat(call_32(310, CLONE_NEWUSER)), cat(call_32(374, 0))});
    });
    if (!has_32_bit_calls()) {
        WARN("this kernel has no 32-bit system calls; a container has none either");
        CHECK(seen.error == "the child died");
        return;
    }
    CHECK(seen.error == "");
    CHECK(seen.text == cat("1 -", EPERM, " -", EAFNOSUPPORT, " -", EPERM, " -", EPERM));
}

TEST_CASE("seccomp: 32-bit programs have sockets", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    auto body = [] {
        std::signal(SIGSEGV, SIG_DFL);
        // The calls' arguments, where 32 bits reach.
        void* low = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        if (low == MAP_FAILED) throw SysError("mapping low memory");
        auto* words = static_cast<uint32_t*>(low);
        auto socketcall = [&](long operation, std::initializer_list<uint32_t> arguments) {
            std::ranges::copy(arguments, words);
            // socketcall is 102.
            return call_32(102, operation, reinterpret_cast<long>(low));
        };
        // SYS_SOCKET and SYS_BIND of linux/net.h. Two bytes of an address are a socket without a name.
        long fd = socketcall(1, {AF_UNIX, SOCK_DGRAM, 0}), wide = socketcall(1, {AF_INET, SOCK_STREAM, 0});
        words[8] = AF_UNIX;
        long bound = socketcall(2, {static_cast<uint32_t>(fd), static_cast<uint32_t>(reinterpret_cast<long>(words + 8)),
                                    sizeof(sa_family_t)});
        return in_order({fd >= 0 ? "ok" : cat(fd), wide >= 0 ? "ok" : cat(wide), cat(bound)});
    };
    Outcome seen = with_plan([](plan::Plan&) {}, body);
    if (!has_32_bit_calls()) {
        WARN("this kernel has no 32-bit system calls; a container has none either");
        CHECK(seen.error == "the child died");
        return;
    }
    CHECK(seen.error == "");
    CHECK(seen.text == "ok ok 0");
    Outcome denied = with_plan([](plan::Plan& plan) { plan.system_calls.deny = {"socketcall"}; }, body);
    CHECK(denied.error == "");
    CHECK(denied.text == cat("-", EPERM, " -", EPERM, " -", EPERM));
}
#endif

TEST_CASE("seccomp: io_uring and a userfaultfd of user mode are the kernel's to give", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    auto body = [] {
        unsigned parameters[30] = {};
        long ring = syscall(SYS_io_uring_setup, 1, parameters);
        std::string out = verdict(static_cast<int>(ring));
        // UFFD_USER_MODE_ONLY, without which it would also stop the kernel.
        out += ", " + verdict(static_cast<int>(syscall(SYS_userfaultfd, 1 | O_CLOEXEC)));
        return out;
    };
    // As outside, whatever this kernel has and kernel.io_uring_disabled says.
    Outcome outside = as_user(body), inside = with_plan([](plan::Plan&) {}, body);
    CHECK(outside.error == "");
    CHECK(inside.error == "");
    CHECK(inside.text == outside.text);
    Outcome denied = with_plan(
        [](plan::Plan& plan) { plan.system_calls.deny = {"io_uring_setup", "userfaultfd"}; }, body);
    CHECK(denied.error == "");
    CHECK(denied.text == "Operation not permitted, Operation not permitted");
}

TEST_CASE("seccomp: with keyctl a task has a session keyring of its container, not that of the daemon",
          "[kernel][seccomp]") {
    NEED_CONTAINERS();
    long outside = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr, 0, 0, 0);
    if (outside < 0 && errno == ENOSYS) {
        WARN("this kernel has no keyrings");
        return;
    }
    REQUIRE(outside >= 0);
    REQUIRE(syscall(SYS_add_key, "user", "of the daemon", "secret", 6, KEY_SPEC_SESSION_KEYRING) >= 0);
    auto body = [outside] {
        char text[32] = {};
        auto own = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0, 0, 0);
        std::string found = verdict(static_cast<int>(
            syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "of the daemon", 0)));
        // What a program keeps for its user, another one finds by the session.
        long made = syscall(SYS_add_key, "user", "own", "value", 5, KEY_SPEC_USER_KEYRING),
             seen = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "own", 0);
        long size = syscall(SYS_keyctl, KEYCTL_READ, seen, text, sizeof text, 0);
        return cat(own > 0 && own != outside ? "own" : "the daemon's", ", ", found, ", ", made > 0 && made == seen,
                   ", ", size > 0 ? text : reason(errno));
    };
    for (bool confined : {true, false}) {
        Outcome seen = with_plan(
            [&](plan::Plan& plan) {
                plan.system_calls.confined = confined;
                plan.system_calls.allow = {"keyctl", "add_key"};
            },
            body);
        CHECK(seen.error == "");
        CHECK(seen.text == "own, Required key not available, 1, value");
    }
}

namespace {

/// Changes of owner to the user's own ids, to none, to others, and of a file that is not there.
std::string changes_of_owner() {
    auto uid = static_cast<long>(getuid()), gid = static_cast<long>(getgid());
    auto file = reinterpret_cast<long>("/etc/hello"), none = reinterpret_cast<long>("/no/such");
    int fd = open("/etc/hello", O_RDONLY | O_CLOEXEC);
    return in_order({call(SYS_fchown, fd, uid, gid), call(SYS_fchown, fd, 5, -1), call(SYS_fchown, -1, uid, -1),
                     verdict(fchownat(AT_FDCWD, "/etc/hello", getuid(), 5, 0)),
                     verdict(fchownat(AT_FDCWD, "/no/such", getuid(), getgid(), 0)),
                     verdict(chown("/etc/hello", 5, 5)), verdict(lchown("/etc/link", -1, 5)),
                     verdict(lchown("/no/such", -1, -1)), mode_of("/etc/hello"),
#ifdef __x86_64__
                     // The upper half of a register is not the kernel's concern.
                     call(SYS_chown, file, 0x700000000 | uid, -1), call(SYS_chown, none, 0x700000000 | uid, -1),
                     call(SYS_chown, none, 0x700000000 | (uid + 1), -1)
#endif
    });
}

}  // namespace

TEST_CASE("seccomp: changes of owner to own ids are real, and others return 0 and do nothing", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    const std::string own = cat(" 100644 ", test_uid(), ":", test_gid()), none = "No such file or directory",
                      no_file = "Bad file descriptor";
    Outcome faked = with_plan([](plan::Plan&) {}, changes_of_owner);
    CHECK(faked.error == "");
    std::string wide = " ok " + none + " ok";
#ifndef __x86_64__
    wide.clear();
#endif
    CHECK(faked.text == cat("ok ok ", no_file, " ok ", none, " ok ok ", none, own, wide));

    // Whether the list of refused calls counts or not.
    Outcome alone = with_plan([](plan::Plan& plan) { plan.system_calls.confined = false; }, changes_of_owner);
    CHECK(alone.error == "");
    CHECK(alone.text == faked.text);

    Outcome real = with_plan([](plan::Plan& plan) { plan.system_calls.fake_chown = false; }, changes_of_owner);
    CHECK(real.error == "");
    const std::string unmapped = "Invalid argument";
    CHECK_THAT(real.text, Catch::StartsWith(cat("ok ", unmapped, " ", no_file, " ", unmapped, " ", none, " ", unmapped,
                                                " ", unmapped, " ", none, own)));

    Outcome denied = with_plan([](plan::Plan& plan) { plan.system_calls.deny = {"fchown", "fchownat"}; },
                               changes_of_owner);
    CHECK(denied.error == "");
    const std::string refused = "Operation not permitted";
    CHECK_THAT(denied.text, Catch::StartsWith(in_order({refused, refused, refused, refused, refused, "ok ok"})));
}

#ifdef __x86_64__
TEST_CASE("seccomp: changes of owner by 32-bit programs are answered alike", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    auto body = [] {
        std::signal(SIGSEGV, SIG_DFL);
        auto uid = static_cast<long>(getuid()), gid = static_cast<long>(getgid());
        // From arch/x86/entry/syscalls/syscall_32.tbl: chown32, fchown32, lchown32; chown, fchown, lchown,
        // which take 16 bits. Nothing is at address 0.
        std::string out;
        for (long number : {212, 207, 198, 182, 95, 16})
            out += cat(call_32(number, -1, uid, gid), " ", call_32(number, -1, -1, -1), " ",
                       call_32(number, -1, uid, 5), " ", call_32(number, -1, 5, gid), "; ");
        return out + cat(call_32(182, -1, 0x10000 | uid, 0xffff));
    };
    Outcome seen = with_plan([](plan::Plan&) {}, body);
    if (!has_32_bit_calls()) {
        WARN("this kernel has no 32-bit system calls; a container has none either");
        CHECK(seen.error == "the child died");
        return;
    }
    CHECK(seen.error == "");
    const std::string path = cat("-", EFAULT, " -", EFAULT, " 0 0; "), file = cat("-", EBADF, " -", EBADF, " 0 0; ");
    CHECK(seen.text == cat(path, file, path, path, file, path, "-", EFAULT));
}
#endif

TEST_CASE("seccomp: a site allows more, denies more, or switches it off", "[kernel][seccomp]") {
    NEED_CONTAINERS();
    auto body = [] {
        return in_order({call(SYS_unshare, CLONE_NEWUSER),
                         call(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING) == "Operation not permitted"
                             ? "no keys"
                             : "keys",
                         call(SYS_getppid)});
    };
    Outcome more = with_plan([](plan::Plan& plan) { plan.system_calls.allow = {"unshare", "clone", "keyctl"}; }, body);
    CHECK(more.error == "");
    CHECK(more.text == "ok keys ok");
    Outcome less = with_plan([](plan::Plan& plan) { plan.system_calls.deny = {"getppid"}; }, body);
    CHECK(less.error == "");
    CHECK(less.text == "Operation not permitted no keys Operation not permitted");
    Outcome off = with_plan([](plan::Plan& plan) { plan.system_calls.confined = false; }, body);
    CHECK(off.error == "");
    CHECK(off.text == "ok keys ok");
}
