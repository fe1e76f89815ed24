#include "runtime/sandbox/seccomp.hh"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::sandbox {

namespace {

// Package managers give files to other users and drop to service accounts; with one id mapped both would fail with
// EINVAL. 32-bit programs use the forms with "32", which libseccomp knows only by these names.
constexpr const char* faked_calls[] = {"chown",       "chown32",  "fchown",     "fchown32",  "lchown",      "lchown32",
                                       "fchownat",    "setuid",   "setuid32",   "setgid",    "setgid32",    "setreuid",
                                       "setreuid32",  "setregid", "setregid32", "setresuid", "setresuid32", "setresgid",
                                       "setresgid32", "setfsuid", "setfsuid32", "setfsgid",  "setfsgid32",  "setgroups",
                                       "setgroups32", "capset"};

constexpr scmp_datum_t namespace_flags =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

void check(int result, const std::string& doing) {
    if (result < 0) throw SysError(cat("building the system call filter: ", doing), -result);
}

struct FilterEnd {
    void operator()(void* filter) const { seccomp_release(filter); }
};

/// A filter being built.
class Builder {
  public:
    explicit Builder(bool x32) : filter_(seccomp_init(SCMP_ACT_ALLOW)) {
        if (!filter_) throw Error("building the system call filter: out of memory");
        add_foreign_architectures(x32);
        check(seccomp_attr_set(filter_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW), "allowing other architectures");
        check(seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2), "choosing the tree form");
    }

    /// Answers the call with an errno value, 0 for success. False when this libseccomp knows no such call.
    bool answer(const std::string& name, uint32_t number) {
        int call = seccomp_syscall_resolve_name(name.c_str());
        if (call == __NR_SCMP_ERROR) return false;
        check(seccomp_rule_add(filter_.get(), SCMP_ACT_ERRNO(number), call, 0), name);
        return true;
    }
    void answer_when(const char* name, uint32_t number, const std::vector<scmp_arg_cmp>& arguments) {
        check(seccomp_rule_add_array(filter_.get(), SCMP_ACT_ERRNO(number), seccomp_syscall_resolve_name(name),
                                     static_cast<unsigned>(arguments.size()), arguments.data()),
              name);
    }

    /// Lets every form of a call through, whatever other rules have added for it.
    void pass(const char* name) {
        check(seccomp_rule_add(filter_.get(), passed, seccomp_syscall_resolve_name(name), 0), name);
    }

    std::string exported() const {
        Fd memory(::memfd_create("berth-filter", MFD_CLOEXEC));
        if (!memory) throw SysError("building the system call filter");
        check(seccomp_export_bpf(filter_.get(), memory.get()), "exporting it");
        ::lseek(memory.get(), 0, SEEK_SET);
        return with_calls_let_through(sys::read_all(memory.get(), 1 << 20, "the system call filter"));
    }

  private:
    /// libseccomp has no rule for what a filter does anyway. No filter of ours has tracers.
    static constexpr uint32_t passed = SCMP_ACT_TRACE(0);

    static std::string with_calls_let_through(std::string program) {
        for (size_t at = 0; at + sizeof(sock_filter) <= program.size(); at += sizeof(sock_filter)) {
            sock_filter step;
            memcpy(&step, program.data() + at, sizeof step);
            if (BPF_CLASS(step.code) == BPF_RET && step.k == passed) step.k = SECCOMP_RET_ALLOW;
            memcpy(program.data() + at, &step, sizeof step);
        }
        return program;
    }

    void add_foreign_architectures(bool x32) {
        std::vector<uint32_t> more;
        switch (seccomp_arch_native()) {
            case SCMP_ARCH_X86_64:
                more = {SCMP_ARCH_X86};
                if (x32) more.push_back(SCMP_ARCH_X32);
                break;
            case SCMP_ARCH_AARCH64:
                more = {SCMP_ARCH_ARM};
                break;
            default:
                break;
        }
        for (uint32_t architecture : more)
            check(seccomp_arch_add(filter_.get(), architecture), "adding an architecture");
    }

    std::unique_ptr<void, FilterEnd> filter_;
};

[[noreturn]] void no_such_call(const std::string& name, const char* key) {
    throw Error(cat("building the system call filter: there is no system call ", printable(name), "; correct security.",
                    key, " in berth.conf"));
}

bool has(const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

void refuse_namespaces(Builder& filter, const FilterRules& rules) {
    auto any_of_flags = [&](const char* call, unsigned argument) {
        // A rule holds where all its comparisons do: one for each flag.
        for (scmp_datum_t flag = 1; flag <= namespace_flags; flag <<= 1)
            if (flag & namespace_flags) filter.answer_when(call, EPERM, {{argument, SCMP_CMP_MASKED_EQ, flag, flag}});
    };
    if (!has(rules.allow, "unshare") && !has(rules.deny, "unshare")) any_of_flags("unshare", 0);
    if (has(rules.allow, "clone") || has(rules.deny, "clone")) return;
    any_of_flags("clone", 0);
    if (!has(rules.allow, "clone3") && !has(rules.deny, "clone3")) filter.answer("clone3", ENOSYS);
}

/// Where argument `number`, of which the kernel takes the lower half, is `value`.
scmp_arg_cmp is(unsigned number, unsigned value) { return {number, SCMP_CMP_MASKED_EQ, 0xffffffff, value}; }

void refuse_socket_families(Builder& filter, const FilterRules& rules) {
    for (unsigned family : {AF_ALG, AF_VSOCK}) filter.answer_when("socket", EAFNOSUPPORT, {is(0, family)});
    // 32-bit C libraries use it, and its arguments are behind a pointer. libseccomp would have refused every socket of
    // theirs together with these two families.
    if (!has(rules.deny, "socketcall")) filter.pass("socketcall");
}

/// A userfaultfd that stops the kernel where it reads a program's memory is a tool for exploiting races in it.
void refuse_faults_of_the_kernel(Builder& filter) {
    constexpr scmp_datum_t user_mode_only = 1;  // UFFD_USER_MODE_ONLY of linux/userfaultfd.h since Linux 5.11
    filter.answer_when("userfaultfd", EPERM, {{0, SCMP_CMP_MASKED_EQ, user_mode_only, 0}});
}

/// What puts characters into a terminal as if they were typed there: the shell that started the container would read
/// and run them.
void refuse_typing(Builder& filter) {
    for (unsigned request : {TIOCSTI, TIOCLINUX}) filter.answer_when("ioctl", EPERM, {is(1, request)});
}

/// The names of refused_calls() that these rules refuse.
bool refuses(const FilterRules& rules, const std::string& name) {
    return rules.confine && has(refused_calls(), name.c_str()) && !has(rules.allow, name.c_str());
}

void confine(Builder& filter, const FilterRules& rules) {
    for (const std::string& name : refused_calls())
        if (refuses(rules, name)) filter.answer(name, EPERM);
    refuse_namespaces(filter, rules);
    if (!has(rules.allow, "socket") && !has(rules.deny, "socket")) refuse_socket_families(filter, rules);
    if (!has(rules.allow, "userfaultfd") && !has(rules.deny, "userfaultfd")) refuse_faults_of_the_kernel(filter);
    if (!has(rules.allow, "ioctl") && !has(rules.deny, "ioctl")) refuse_typing(filter);
}

/// mknod and mknodat of character and block devices. `mode_argument` is the place of the mode among the arguments, and
/// the device's number the next one. The character device 0:0 is how overlayfs marks a removed file, and the kernel
/// lets everybody make it.
void fake_device_nodes(Builder& filter, const char* name, unsigned mode_argument) {
    filter.answer_when(name, 0, {{mode_argument, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK}});
    filter.answer_when(name, 0, {{mode_argument, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR},
                                 {mode_argument + 1, SCMP_CMP_NE, 0, 0}});
}

void fake_root(Builder& filter, const std::vector<std::string>& deny, const std::vector<std::string>& allow) {
    for (const char* name : faked_calls)
        if (!has(deny, name) && !has(allow, name)) filter.answer(name, 0);
    if (!has(deny, "mknod")) fake_device_nodes(filter, "mknod", 1);
    if (!has(deny, "mknodat")) fake_device_nodes(filter, "mknodat", 2);
}

/// What a site adds. A call that is refused anyway, perhaps only for some arguments, needs no second rule and could not
/// have one.
void refuse_more(Builder& filter, const FilterRules& rules) {
    for (const std::string& name : rules.deny) {
        if (!refuses(rules, name) && !filter.answer(name, EPERM)) no_such_call(name, "seccomp_deny");
    }
}

}  // namespace

const std::vector<std::string>& refused_calls() {
    // What docker's default profile (moby, profiles/seccomp) keeps from processes without capabilities, but for what
    // jobs use: mbind, move_pages and the memory policies (NUMA), process_vm_readv and kcmp (MPI), perf_event_open
    // (profilers; the sysctl kernel.perf_event_paranoid governs it).
    static const std::vector<std::string> names = {"acct",
                                                   "add_key",
                                                   "adjtimex",
                                                   "bpf",
                                                   "clock_adjtime",
                                                   "clock_adjtime64",
                                                   "clock_settime",
                                                   "clock_settime64",
                                                   "create_module",
                                                   "delete_module",
                                                   "fanotify_init",
                                                   "finit_module",
                                                   "fsconfig",
                                                   "fsmount",
                                                   "fsopen",
                                                   "fspick",
                                                   "get_kernel_syms",
                                                   "init_module",
                                                   "ioperm",
                                                   "iopl",
                                                   "kexec_file_load",
                                                   "kexec_load",
                                                   "keyctl",
                                                   "lookup_dcookie",
                                                   "mount",
                                                   "mount_setattr",
                                                   "move_mount",
                                                   "nfsservctl",
                                                   "open_by_handle_at",
                                                   "open_tree",
                                                   "pivot_root",
                                                   "query_module",
                                                   "quotactl",
                                                   "quotactl_fd",
                                                   "reboot",
                                                   "request_key",
                                                   "setdomainname",
                                                   "sethostname",
                                                   "setns",
                                                   "settimeofday",
                                                   "stime",
                                                   "swapoff",
                                                   "swapon",
                                                   "_sysctl",
                                                   "sysfs",
                                                   "syslog",
                                                   "umount",
                                                   "umount2",
                                                   "uselib",
                                                   "ustat",
                                                   "vhangup",
                                                   "vm86",
                                                   "vm86old"};
    return names;
}

bool kernel_has_x32() {
#ifdef __x86_64__
    constexpr long x32 = 0x40000000;  // __X32_SYSCALL_BIT of asm/unistd.h
    return ::syscall(x32 | SYS_getpid) > 0 || errno != ENOSYS;
#else
    return false;
#endif
}

std::string head_of_filter(const FilterRules& rules) {
    return rules.own_ids && !rules.fake_root ? fake_chown(*rules.own_ids, rules.deny, rules.x32) : std::string();
}

std::string system_call_filter(const FilterRules& rules) {
    std::string head = head_of_filter(rules);
    if (head.empty() && !rules.confine && !rules.fake_root && rules.deny.empty()) return {};
    Builder filter(rules.x32);
    for (const std::string& name : rules.allow)
        if (seccomp_syscall_resolve_name(name.c_str()) == __NR_SCMP_ERROR) no_such_call(name, "seccomp_allow");
    refuse_more(filter, rules);
    if (rules.confine) confine(filter, rules);
    if (rules.fake_root) fake_root(filter, rules.deny, rules.allow);
    return head + filter.exported();
}

void install_filter(const std::string& program) {
    if (program.empty()) return;
    std::vector<sock_filter> code(program.size() / sizeof(sock_filter));
    if (code.empty() || program.size() % sizeof(sock_filter) != 0 || code.size() > BPF_MAXINSNS)
        throw Error(cat("installing the system call filter: ", program.size(), " bytes are no filter"));
    memcpy(code.data(), program.data(), program.size());
    sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0)
        throw SysError("installing the system call filter");
}

}  // namespace berth::sandbox
