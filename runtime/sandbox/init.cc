#include "runtime/sandbox/init.hh"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "runtime/base/channel.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/messages.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/user_namespace.hh"

namespace berth::sandbox {

namespace {

constexpr int answer_ms = 10'000;

Fd new_proc() {
    try {
        return sys::new_mount("proc", {{"source", "proc"}}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    } catch (const SysError& error) {
        if (error.number() != EPERM) throw;
        throw Error(cat(error.what(),
                        "; parts of this node's /proc are covered by mounts, as in a container: leave out --pid"));
    }
}

/// No descriptor of the program stays open because of the first process.
void close_all() {
    sys::point_at_null({0, 1, 2});
    sys::close_range(3, ~0U);
}

[[noreturn]] void reap() {
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_SETMASK, &children, nullptr);
    for (;;) {
        while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
        ::sigwaitinfo(&children, nullptr);
    }
}

void tell(const Fd& channel, const Error& error) {
    try {
        if (channel)
            send_message(channel.get(), plan::encode(plan::Failure{error.what(), error.exit_code()}), {}, answer_ms);
    } catch (const Error&) {
        // Who started it has gone.
    }
}

/// The life of the first process. Never returns.
[[noreturn]] void be_init(Fd channel) {
    ::prctl(PR_SET_NAME, "berth-init");
    try {
        std::vector<Fd> made;
        made.push_back(sys::open_file("/proc/self/ns/pid", O_RDONLY));
        made.push_back(new_proc());
        drop_capabilities();
        forbid_new_privileges();
        become_private();
        // Only now: a change of credentials takes it back. When the caller has gone meanwhile, there is nobody to send
        // to.
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) throw SysError("tying the first process to the container");
        send_message(channel.get(), {}, {made[0].get(), made[1].get()}, answer_ms);
        made.clear();
        channel.release();
        close_all();
    } catch (const Error& error) {
        tell(channel, error);
        ::_exit(exit_failure);
    }
    reap();
}

}  // namespace

Init start_init() {
    auto&& [ours, its] = make_channel();
    // No signal at its end: whoever waits for any child waits for commands.
    Init out;
    out.process = Pid(static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWPID, nullptr, nullptr, nullptr, nullptr)));
    if (out.process.get() < 0) {
        int number = errno;
        throw Error(cat("giving the container a pid namespace of its own: ", reason(number),
                        number == ENOSPC ? "; raise user.max_pid_namespaces (sysctl)" : ""));
    }
    if (out.process.get() == 0) {
        ours.reset();
        be_init(std::move(its));
    }
    its.reset();
    auto received = receive_message(ours.get(), answer_ms);
    if (received && received->descriptors.size() == 2) {
        out.pid_namespace = std::move(received->descriptors[0]);
        out.file_system = std::move(received->descriptors[1]);
        return out;
    }
    if (!received) throw Error("giving the container a pid namespace of its own: its first process ended at once");
    throw Error(cat("giving the container a pid namespace of its own: ", plan::decode_failure(received->message).line));
}

bool may_have_own_processes(const plan::Identity& identity) {
    Pid child(::fork());
    if (child.get() < 0) return false;
    if (child) return child.wait() == 0;
    try {
        enter_user_namespace(identity);
        start_init().process.send(SIGKILL);
        ::_exit(0);
    } catch (const Error&) {
        ::_exit(1);
    }
}

}  // namespace berth::sandbox
