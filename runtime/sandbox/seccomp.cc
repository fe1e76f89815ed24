#include "runtime/sandbox/seccomp.hh"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::sandbox {

namespace {

// Package managers give files to other users and drop to service accounts; with one id mapped both would fail with EINVAL.
// 32-bit programs use the forms with "32", which libseccomp knows only by these names.
constexpr const char* faked_calls[] = {"chown",      "chown32",    "fchown",      "fchown32",    "lchown",      "lchown32",   "fchownat",
                                       "setuid",     "setuid32",   "setgid",      "setgid32",    "setreuid",    "setreuid32", "setregid",
                                       "setregid32", "setresuid",  "setresuid32", "setresgid",   "setresgid32", "setfsuid",   "setfsuid32",
                                       "setfsgid",   "setfsgid32", "setgroups",   "setgroups32", "capset"};

void check(int result, const char* doing) {
    if (result < 0) throw SysError(cat("building the system call filter: ", doing), -result);
}

struct FilterEnd {
    void operator()(void* filter) const { seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, FilterEnd>;

void add_foreign_architectures(scmp_filter_ctx filter) {
    std::vector<uint32_t> more;
    switch (seccomp_arch_native()) {
        case SCMP_ARCH_X86_64:
            more = {SCMP_ARCH_X86, SCMP_ARCH_X32};
            break;
        case SCMP_ARCH_AARCH64:
            more = {SCMP_ARCH_ARM};
            break;
        default:
            break;
    }
    for (uint32_t architecture : more) check(seccomp_arch_add(filter, architecture), "adding an architecture");
}

/// mknod and mknodat of character and block devices. `mode_argument` is the place of the mode among the arguments.
void fake_device_nodes(scmp_filter_ctx filter, const char* name, unsigned mode_argument) {
    for (scmp_datum_t type : {scmp_datum_t{S_IFCHR}, scmp_datum_t{S_IFBLK}}) {
        scmp_arg_cmp is_type = {mode_argument, SCMP_CMP_MASKED_EQ, S_IFMT, type};
        check(seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(0), seccomp_syscall_resolve_name(name), 1, &is_type), name);
    }
}

std::string exported(scmp_filter_ctx filter) {
    Fd memory(::memfd_create("berth-filter", MFD_CLOEXEC));
    if (!memory) throw SysError("building the system call filter");
    check(seccomp_export_bpf(filter, memory.get()), "exporting it");
    ::lseek(memory.get(), 0, SEEK_SET);
    return sys::read_all(memory.get(), 1 << 20, "the system call filter");
}

}  // namespace

std::string fake_root_filter() {
    Filter filter(seccomp_init(SCMP_ACT_ALLOW));
    if (!filter) throw Error("building the system call filter: out of memory");
    add_foreign_architectures(filter.get());
    check(seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW), "allowing other architectures");
    check(seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2), "choosing the tree form");
    for (const char* name : faked_calls) check(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(0), seccomp_syscall_resolve_name(name), 0), name);
    fake_device_nodes(filter.get(), "mknod", 1);
    fake_device_nodes(filter.get(), "mknodat", 2);
    return exported(filter.get());
}

void install_filter(const std::string& program) {
    std::vector<sock_filter> code(program.size() / sizeof(sock_filter));
    if (code.empty() || program.size() % sizeof(sock_filter) != 0 || code.size() > BPF_MAXINSNS)
        throw Error(cat("installing the system call filter: ", program.size(), " bytes are no filter"));
    memcpy(code.data(), program.data(), program.size());
    sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) throw SysError("installing the system call filter");
}

}  // namespace berth::sandbox
