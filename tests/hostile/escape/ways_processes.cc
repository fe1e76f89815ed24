// By other processes: the user's on the node, Berth's own, and those that join the container.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "runtime/base/new_calls.hh"
#include "tests/hostile/escape/escape.hh"

namespace escape {

namespace {

std::string proc(pid_t pid, const char* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

/// What the first of the processes gives; else the reason of the last one that is there.
Result from_any(const std::function<Result(pid_t)>& attempt) {
    Result out = refused(ESRCH);
    for (pid_t pid : others()) {
        errno = 0;
        Result one = attempt(pid);
        if (one.kind == Result::Kind::got) return {one.kind, "of process " + std::to_string(pid) + ": " + one.what};
        if (kill(pid, 0) == 0 || errno == EPERM) out = one;
    }
    return out;
}

Result folder_link(const char* name) {
    return from_any([name](pid_t pid) {
        int folder = open(proc(pid, name).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0) return refused();
        std::string up = proc(pid, name) + "/../../../../../../../..";
        int top = open(up.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        bool found = finds_secret(folder) || finds_secret(top);
        close(folder);
        if (top >= 0) close(top);
        return found ? got("the secret") : refused(ENOENT);
    });
}

Result proc_root() { return folder_link("root"); }
Result proc_cwd() { return folder_link("cwd"); }

Result proc_fd() {
    return from_any([](pid_t pid) {
        std::vector<std::string> names = names_in(proc(pid, "fd"));
        for (const std::string& name : names)
            if (open((proc(pid, "fd/") + name).c_str(), O_PATH | O_CLOEXEC) >= 0) return got("its descriptor " + name);
        // Where the names cannot be listed.
        int number = errno;
        for (int fd = 0; fd < 32; ++fd)
            if (open((proc(pid, "fd/") + std::to_string(fd)).c_str(), O_PATH | O_CLOEXEC) >= 0)
                return got("its descriptor " + std::to_string(fd));
        return refused(number);
    });
}

Result opens_of_any(const char* name, int flags) {
    return from_any([=](pid_t pid) {
        int fd = open(proc(pid, name).c_str(), flags | O_CLOEXEC);
        if (fd < 0) return refused();
        char byte;
        // Such files can be opened by all, and refuse when they are read.
        ssize_t size = (flags & O_ACCMODE) == O_RDONLY ? read(fd, &byte, 1) : 1;
        close(fd);
        return size > 0 ? got(name) : refused(size == 0 ? ESRCH : errno);
    });
}

Result proc_mem() { return opens_of_any("mem", O_RDWR); }
Result proc_environ() { return opens_of_any("environ", O_RDONLY); }
Result proc_maps() { return opens_of_any("maps", O_RDONLY); }
Result proc_exe() { return opens_of_any("exe", O_RDONLY); }

Result proc_map_files() {
    return from_any([](pid_t pid) {
        for (const std::string& name : names_in(proc(pid, "map_files")))
            if (open((proc(pid, "map_files/") + name).c_str(), O_RDONLY | O_CLOEXEC) >= 0) return got(name);
        return refused(errno ? errno : EACCES);
    });
}

Result proc_tasks() {
    // The threads of a process, whose rights may be others.
    return from_any([](pid_t pid) {
        for (const std::string& thread : names_in(proc(pid, "task")))
            for (const char* name : {"root", "cwd", "fd/0", "fd/3", "ns/mnt"})
                if (open((proc(pid, "task/") + thread + "/" + name).c_str(), O_PATH | O_CLOEXEC) >= 0)
                    return got("thread " + thread + ": " + name);
        return refused();
    });
}

Result namespaces() {
    return from_any([](pid_t pid) {
        Result out = refused(EACCES);
        for (const char* name : {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
            int fd = open((proc(pid, "ns/") + name).c_str(), O_RDONLY | O_CLOEXEC);
            if (fd < 0) continue;
            int number = setns(fd, 0) == 0 ? 0 : errno;
            close(fd);
            return number == 0 ? got(std::string("its namespace ") + name) : got(std::string("a handle of ns/") + name);
        }
        return out;
    });
}

Result setns_by_pidfd() {
    return from_any([](pid_t pid) {
        int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
        if (process < 0) return refused();
        for (int type : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWUTS})
            if (setns(process, type) == 0) {
                close(process);
                return got("a namespace");
            }
        int number = errno;
        close(process);
        return refused(number);
    });
}

Result trace() {
    return from_any([](pid_t pid) {
        if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) return refused();
        ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
        return got("traced");
    });
}

Result read_memory() {
    return from_any([](pid_t pid) {
        char text[256] = {};
        iovec here{text, sizeof text - 1}, there{place_of_token(), sizeof text - 1};
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) <= 0) return refused();
        return !token().empty() && strstr(text, token().c_str()) ? got("the secret from its memory")
                                                                 : got("its memory");
    });
}

Result write_memory() {
    return from_any([](pid_t pid) {
        char text[256] = {};
        token().copy(text, sizeof text - 1);
        iovec here{text, sizeof text - 1}, there{place_of_token(), sizeof text - 1};
        // The place that each process of this program has; the same is written as is there.
        return process_vm_writev(pid, &here, 1, &there, 1, 0) > 0 ? got("its memory to write to") : refused();
    });
}

Result take_descriptor() {
    return from_any([](pid_t pid) {
        int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), number = errno;
        for (int fd = 0; process >= 0 && fd < 32; ++fd)
            if (syscall(SYS_pidfd_getfd, process, fd, 0) >= 0) {
                close(process);
                return got("its descriptor " + std::to_string(fd));
            } else if (errno != EBADF) {
                number = errno;
            }
        if (process >= 0) close(process);
        return refused(number);
    });
}

Result advise_memory() {
    constexpr size_t page = 4096;
    return from_any([](pid_t pid) {
        int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
        iovec there{reinterpret_cast<void*>(reinterpret_cast<size_t>(place_of_token()) & ~(page - 1)), page};
        long result = process < 0 ? -1 : syscall(SYS_process_madvise, process, &there, 1, 20 /* MADV_COLD */, 0);
        int number = errno;
        if (process >= 0) close(process);
        return result > 0 ? got("its memory paged out") : refused(number);
    });
}

Result compare_processes() {
    constexpr int files = 2;  // KCMP_FILES, linux/kcmp.h
    return from_any([](pid_t pid) {
        return syscall(SYS_kcmp, getpid(), pid, files, 0, 0) >= 0 ? got("pointers of the kernel compared") : refused();
    });
}

Result performance_counters() {
    return from_any([](pid_t pid) {
        // struct perf_event_attr, linux/perf_event.h: a software event, not of the kernel's code.
        struct {
            unsigned type = 1, size = 64;
            unsigned long long config = 2, period = 0, sample = 0, format = 0;
            unsigned long long flags = 1ULL << 5 | 1ULL << 6;
            unsigned long long rest[2] = {};
        } attributes;
        long fd = syscall(SYS_perf_event_open, &attributes, pid, -1, -1, 0);
        if (fd < 0) return refused();
        close(static_cast<int>(fd));
        return got("counters of another process");
    });
}

}  // namespace

std::vector<Way> ways_by_processes() {
    return {
        {"proc-root", "/proc/PID/root of each process of the node", "known of all runtimes without a PID namespace",
         Control::user, proc_root},
        {"proc-cwd", "/proc/PID/cwd of each process, and up", "the same, CVE-2024-21626", Control::user, proc_cwd},
        {"proc-fd", "/proc/PID/fd/N of each process", "CVE-2016-9962, CVE-2024-21626", Control::user, proc_fd},
        {"proc-mem", "/proc/PID/mem of each process", "CVE-2012-0056's file", Control::user, proc_mem},
        {"proc-environ", "/proc/PID/environ of each process", "leaked credentials", Control::user, proc_environ},
        {"proc-maps", "/proc/PID/maps of each process", "the step before writing to memory", Control::user, proc_maps},
        {"proc-exe", "/proc/PID/exe of each process", "CVE-2019-5736", Control::user, proc_exe},
        {"proc-map-files", "/proc/PID/map_files of each process", "CVE-2019-5736's second file", Control::root,
         proc_map_files},
        {"proc-task", "the same files of each thread", "threads with rights of their own", Control::user, proc_tasks},
        {"proc-ns", "handles of namespaces from /proc/PID/ns", "nsenter", Control::user, namespaces},
        {"setns-pidfd", "setns with a process's descriptor", "nsenter, Linux 5.8", Control::root, setns_by_pidfd},
        {"ptrace", "PTRACE_SEIZE of each process", "CVE-2019-13272, CVE-2014-4699", Control::user, trace},
        {"vm-readv", "process_vm_readv of each process", "the way debuggers read", Control::user, read_memory},
        {"vm-writev", "process_vm_writev to each process of this program", "the same", Control::user, write_memory},
        {"pidfd-getfd", "pidfd_getfd of each process", "Linux 5.6; as CVE-2016-9962", Control::user, take_descriptor},
        {"process-madvise", "process_madvise of each process", "Linux 5.10", Control::root, advise_memory},
        {"kcmp", "kcmp with each process", "order of the kernel's pointers", Control::user, compare_processes},
        {"perf", "perf_event_open on each process", "CVE-2013-2094's call", Control::root, performance_counters},
    };
}

}  // namespace escape
