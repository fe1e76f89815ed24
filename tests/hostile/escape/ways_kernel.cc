// By system calls that only widen the kernel's surface, or that are root's.
#include <fcntl.h>
#include <linux/if_alg.h>
#include <linux/io_uring.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
#include <sys/io.h>
#endif

#include <cstring>

#include "tests/hostile/escape/escape.hh"

namespace escape {

namespace {

Result keyring() {
    const char* kind = "user";
    long made = syscall(SYS_add_key, kind, "escape", "x", 1, -3 /* KEY_SPEC_SESSION_KEYRING */);
    if (made >= 0) return got("a key in the session's keyring");
    Result out = taken(syscall(SYS_keyctl, 6 /* KEYCTL_DESCRIBE */, -4 /* KEY_SPEC_USER_KEYRING */, nullptr, 0));
    return out.kind == Result::Kind::got ? out : taken(syscall(SYS_request_key, kind, "escape", nullptr, 0));
}

Result user_faults() { return taken(syscall(SYS_userfaultfd, 0)); }

Result bpf() {
    // union bpf_attr: an array of one entry.
    unsigned map[18] = {2, 4, 4, 1};
    return taken(syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, map, sizeof map));
}

/// A ring itself is no way out: see SECURITY.md. Its workers are threads of the kernel, and may have another root.
Result io_uring() {
    io_uring_params made{};
    int ring = static_cast<int>(syscall(SYS_io_uring_setup, 1, &made));
    if (ring < 0) return refused();
    auto map = [&](size_t size, off_t what) {
        return static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what));
    };
    char* submitted = map(made.sq_off.array + made.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char* completed = map(made.cq_off.cqes + made.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    char* entries = map(made.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
    if (submitted == MAP_FAILED || completed == MAP_FAILED || entries == MAP_FAILED) return refused();
    std::string path = secret_path();
    io_uring_sqe entry{};
    entry.opcode = IORING_OP_OPENAT;
    entry.flags = IOSQE_ASYNC;
    entry.fd = AT_FDCWD;
    entry.addr = reinterpret_cast<uint64_t>(path.c_str());
    entry.open_flags = O_RDONLY | O_CLOEXEC;
    memcpy(entries, &entry, sizeof entry);
    // The only entry of the array has number 0 already.
    __atomic_store_n(reinterpret_cast<unsigned*>(submitted + made.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) != 1) return refused();
    io_uring_cqe result;
    memcpy(&result, completed + made.cq_off.cqes, sizeof result);
    if (result.res < 0) return refused(-result.res);
    return has_token(result.res) ? got("a file of the node, opened by a ring's worker") : refused(ENOENT);
}

Result kexec() {
    Result out = taken(syscall(SYS_kexec_load, 0, 17, nullptr, 0xffff0000));
    return out.kind == Result::Kind::got ? out : taken(syscall(SYS_kexec_file_load, -1, -1, 0, nullptr, 0x800));
}

Result modules() {
    char no_module[64] = {};
    Result out = taken(syscall(SYS_init_module, no_module, sizeof no_module, ""));
    if (out.kind != Result::Kind::refused) return out;
    return taken(syscall(SYS_finit_module, -1, "", 0));
}

/// Berth's filter answers as a kernel does that lacks the family.
int lacking() { return errno != EAFNOSUPPORT ? errno : is_control() ? ENOSYS : EPERM; }

Result crypto_sockets() {
    int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return refused(lacking());
    sockaddr_alg address{};
    address.salg_family = AF_ALG;
    strcpy(reinterpret_cast<char*>(address.salg_type), "hash");
    strcpy(reinterpret_cast<char*>(address.salg_name), "sha256");
    return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? got("a hash of the kernel's")
                                                                                : got("a socket of AF_ALG");
}

/// To the machine below a virtual one.
Result virtual_sockets() {
    int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 ? got("a socket of AF_VSOCK") : refused(lacking());
}

Result raw_packets() {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0x0300 /* ETH_P_ALL */);
    return fd >= 0 ? got("all packets of the node") : refused();
}

Result watch_files() {
    int fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);
    return taken(fd);
}

Result io_ports() {
#ifdef __x86_64__
    if (iopl(3) == 0) return got("all ports");
    return taken(ioperm(0x80, 1, 1));
#else
    return refused(ENOSYS);
#endif
}

/// None of them does anything: their arguments are wrong, which root is told instead of EPERM.
Result calls_of_root() {
    if (Result out = taken(syscall(SYS_reboot, 0, 0, 0, nullptr)); out.kind == Result::Kind::got) return out;
    if (Result out = taken(swapon("/no/such/file", 0)); out.kind == Result::Kind::got) return out;
    if (Result out = taken(syscall(SYS_acct, "/no/such/file")); out.kind == Result::Kind::got) return out;
    if (Result out = taken(syscall(SYS_sethostname, "", -1)); out.kind == Result::Kind::got) return out;
    if (Result out = taken(syscall(SYS_delete_module, "no-such-module", O_NONBLOCK)); out.kind == Result::Kind::got)
        return out;
    long long wrong[2] = {-1, -1};
    return taken(syscall(SYS_settimeofday, wrong, nullptr));
}

Result log_of_the_kernel() {
    char text[128];
    long size = syscall(SYS_syslog, 3 /* SYSLOG_ACTION_READ_ALL */, text, sizeof text);
    if (size >= 0) return got("the kernel's log");
    int fd = open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 ? got("/dev/kmsg") : refused(EPERM);
}

/// CVE-2022-0847: the page of a file that is open for reading, as a page of a pipe that is written to.
Result dirty_pipe() {
    int file = open("/etc/hosts", O_RDONLY | O_CLOEXEC), pipe[2];
    char before[2] = {}, after[2] = {}, full[4096] = {};
    if (file < 0 || pread(file, before, 2, 0) != 2 || pipe2(pipe, O_CLOEXEC) != 0) return refused();
    for (int i = 0; i < 16; ++i)
        if (write(pipe[1], full, sizeof full) != sizeof full) return refused();
    for (int i = 0; i < 16; ++i)
        if (read(pipe[0], full, sizeof full) != sizeof full) return refused();
    loff_t offset = 0;
    // The same byte: a kernel that has the fault is not harmed, but its pipe took it for one of its own.
    if (splice(file, &offset, pipe[1], nullptr, 1, 0) != 1 || write(pipe[1], "\1", 1) != 1) return refused();
    bool changed = pread(file, after, 2, 0) == 2 && after[1] == '\1' && before[1] != '\1';
    return changed ? got("a file that it can only read") : refused(EACCES);
}

}  // namespace

std::vector<Way> ways_by_the_kernel() {
    return {
        {"keyring", "keys of the user's session", "CVE-2016-0728, keyrings(7)", Control::root, keyring},
        {"userfaultfd", "faults of the kernel handled by the attacker",
         "userfaultfd(2), with which races of the kernel are won", Control::root, user_faults},
        {"bpf", "a map of BPF", "CVE-2021-3490, CVE-2021-4204", Control::root, bpf},
        {"io-uring", "a file opened by the worker of a ring", "CVE-2019-19241, CVE-2020-29373", Control::user,
         io_uring},
        {"kexec", "another kernel", "CAP_SYS_BOOT", Control::root, kexec},
        {"modules", "a module of the kernel", "CAP_SYS_MODULE, as privileged containers have it", Control::root,
         modules},
        {"af-alg", "the kernel's cryptography", "CVE-2019-8912, CVE-2016-10147", Control::root, crypto_sockets},
        {"af-vsock", "the machine below", "CVE-2021-26708", Control::root, virtual_sockets},
        {"af-packet", "packets of the node", "CVE-2020-14386, CVE-2017-7308", Control::root, raw_packets},
        {"fanotify", "each access to a mount", "fanotify_init(2)", Control::root, watch_files},
        {"io-ports", "ports of the hardware", "CAP_SYS_RAWIO", Control::root, io_ports},
        {"calls-of-root", "reboot, swapon, acct, sethostname, delete_module, settimeofday", "moby's default profile",
         Control::root, calls_of_root},
        {"kernel-log", "the kernel's log", "kernel.dmesg_restrict: addresses of the kernel", Control::root,
         log_of_the_kernel},
        {"dirty-pipe", "a write to a file that is open for reading", "CVE-2022-0847", Control::none, dirty_pipe},
    };
}

}  // namespace escape
