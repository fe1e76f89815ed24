#include "spank/helper.hh"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/channel.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/helper_program.hh"
#include "runtime/base/text.hh"
#include "spank/device_filter.hh"
#include "spank/leaf.hh"

namespace berth::spank {

namespace {

/// All that the child needs, made before the fork: only async-signal-safe calls are allowed after it.
struct Launch {
    const char* program;
    char* const* arguments;
    char* const* environment;
    int socket;
    int report;
    HelperPlace place;
    uid_t uid;
    gid_t gid;
    const gid_t* groups;
    size_t group_count;
};

/// -1 as an id means: leave it.
long set_user(uid_t real, uid_t effective, uid_t saved) {
    return syscall(SYS_setresuid, real, effective, saved);
}

bool regain_root() {
    return set_user(static_cast<uid_t>(-1), 0, static_cast<uid_t>(-1)) == 0;
}

/// slurmstepd has -1000; its helper must not survive where tasks are killed for memory.
void reset_oom_score() {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    [[maybe_unused]] ssize_t written = write(fd, "0", 1);
    close(fd);
}

/// Becomes the user for good; false when anything of root's could be left. The bare system calls touch this process
/// alone, whereas the C library's would signal the threads it believes to have.
bool drop_privileges(const Launch& launch) {
    bool root = regain_root();
    if (root) reset_oom_score();
    if (root && syscall(SYS_setgroups, launch.group_count, launch.groups) != 0) return false;
    if (syscall(SYS_setresgid, launch.gid, launch.gid, launch.gid) != 0) return false;
    if (set_user(launch.uid, launch.uid, launch.uid) != 0) return false;
    uid_t uids[3];
    gid_t gids[3];
    if (getresuid(&uids[0], &uids[1], &uids[2]) != 0 || getresgid(&gids[0], &gids[1], &gids[2]) != 0) return false;
    for (int i = 0; i < 3; ++i)
        if (uids[i] != launch.uid || gids[i] != launch.gid) return false;
    if (launch.uid != 0 && regain_root()) return false;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/// Signals meant for the tasks must not end their file server; end of file on the socket does.
void set_signals() {
    static const int polite[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE, SIGALRM,
                                 SIGUSR1, SIGUSR2, SIGXCPU, SIGTSTP, SIGTTIN, SIGTTOU};
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
    for (int number : polite) signal(number, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Leaves 0, 1, 2 at /dev/null and 3 at the socket, and nothing else.
bool set_descriptors(int socket) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return false;
    // Out of the way of the targets; the copy survives exec.
    int kept = fcntl(socket, F_DUPFD, 4);
    for (int target = 0; target <= 2; ++target)
        if (dup2(null, target) < 0) return false;
    if (kept < 0 || dup2(kept, 3) < 0) return false;
    return sys::close_range(4, ~0U);
}

[[noreturn]] void become_helper(const Launch& launch) {
    setsid();
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    umask(022);
    // Descriptors first: a process of the user's could look into one that is the user's already.
    if (chdir("/") != 0 || !set_descriptors(launch.socket) || !drop_privileges(launch)) _exit(125);
    set_signals();
    execve(launch.program, launch.arguments, launch.environment);
    _exit(125);
}

/// Hands a descriptor and a byte to the other end of `socket`.
void send_descriptor(int socket, int descriptor, char byte) {
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    sendmsg(socket, &header, MSG_NOSIGNAL);
}

constexpr char in_leaf = 1, has_devices = 2, has_mounts = 4;

/// Moves this process, which is about to end, to where the helper is to be born.
char enter(const HelperPlace& place) {
    int out = 0;
    if ((place.leaf < 0 && place.mounts < 0) || !regain_root()) return 0;
    if (place.leaf >= 0 && move_process(place.leaf, 0)) out |= in_leaf;
    if (out != 0 && place.devices >= 0 && copy_device_filter(place.devices, place.leaf)) out |= has_devices;
    // What is found by descriptors comes before: the files of cgroups may be others there.
    if (place.mounts >= 0 && setns(place.mounts, CLONE_NEWNS) == 0) out |= has_mounts;
    return static_cast<char>(out);
}

/// The process between: starts the helper, hands its pidfd to slurmstepd while the number cannot be taken by another
/// process, and ends.
[[noreturn]] void become_go_between(const Launch& launch) {
    int pidfd = -1;
    char entered = enter(launch.place);
    // Not fork(): it takes locks that another thread of slurmstepd may have held.
    long pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr);
    if (pid == 0) become_helper(launch);
    if (pid > 0) send_descriptor(launch.report, pidfd, entered);
    _exit(pid > 0 ? 0 : 125);
}

/// The descriptor that the go-between sends; empty when it could not start the helper.
Fd receive_descriptor(int socket, char& byte) {
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t size;
    do size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (size < 0 && errno == EINTR);
    cmsghdr* rights = size > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
    if (rights == nullptr || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return Fd();
    int fd;
    memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    return Fd(fd);
}

/// Forks with all signals blocked, so that none of slurmstepd's handlers runs in the child.
pid_t fork_go_between(const Launch& launch) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) become_go_between(launch);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return pid;
}

void reap(pid_t pid) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace

StartedHelper start_helper(const std::string& program, const HelperIdentity& identity, std::vector<std::string> words,
                           HelperPlace place) {
    check_helper_program(program);
    auto&& [ours, theirs] = make_channel();
    auto&& [report_read, report_write] = make_channel();
    char name[] = "berth", path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    std::vector<char*> arguments = {name};
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    char* const environment[] = {path, nullptr};
    Launch launch{program.c_str(),    arguments.data(), environment,  theirs.get(),
                  report_write.get(), place,            identity.uid, identity.gid,
                  identity.groups.data(), identity.groups.size()};
    pid_t pid = fork_go_between(launch);
    if (pid < 0) throw SysError("starting the helper " + program);
    report_write.reset();
    theirs.reset();
    char entered = 0;
    Fd process = receive_descriptor(report_read.get(), entered);
    reap(pid);
    if (!process)
        throw Error(cat("starting the helper ", program,
                        ": the process that was to become it ended first; see slurmd's log, and run ", program,
                        " version as the user"));
    return {std::move(ours), std::move(process), (entered & in_leaf) != 0, (entered & has_devices) != 0,
            (entered & has_mounts) != 0};
}

void kill_helper(int process) {
    syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
}

void wait_for_helper(int process, int timeout_ms) {
    pollfd entry{process, POLLIN, 0};
    if (poll(&entry, 1, timeout_ms) != 0) return;
    kill_helper(process);
    poll(&entry, 1, 1000);
}

}  // namespace berth::spank
