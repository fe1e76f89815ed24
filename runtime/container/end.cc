// The end of a container, as its server brings it about.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <utility>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/container/start.hh"
#include "runtime/plan/messages.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/processes.hh"

namespace berth {

namespace {

bool end_inhabitants(StartedContainer& container, std::chrono::milliseconds timeout) {
    if (container.init) {
        // With the first process the kernel ends all others of its namespace; nobody else is in the container.
        container.init.send(SIGKILL);
        if (container.init.ends_within(timeout)) return true;
        container.init.release();
        return false;
    }
    siginfo_t child{};
    if (container.adopts && ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
        return true;
    // A task that made itself undumpable (ssh-agent does) can be recognised only with this.
    sandbox::raise_capabilities(kept_capabilities);
    bool ended = sandbox::kill_inhabitants(container.proc.get(), container.user_namespace.get(), timeout);
    sandbox::drop_capabilities(kept_capabilities, container.capabilities);
    return ended;
}

}  // namespace

void adopt_orphans(StartedContainer& container) { container.adopts = ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0; }

bool end_container(StartedContainer& container, std::chrono::milliseconds timeout) {
    container.prefetcher = {};
    container.data_sweeps.clear();
    bool ended = end_inhabitants(container, timeout);
    if (auto keep = std::exchange(container.keep_reads, {})) keep();
    return ended;
}

namespace {

/// For which the kernel has no number here.
bool is_in_another_pid_namespace(int connection) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == 0;
}

}  // namespace

std::string reason_of_end(int connection) {
    try {
        auto received = receive_message(connection, 0);
        if (received && plan::is(received->message, plan::MessageType::failure))
            return plan::decode_failure(received->message).line;
    } catch (const Error&) {
        // Cut short: by a kill.
    }
    if (is_in_another_pid_namespace(connection))
        return "the container has ended with the job that started it: Slurm gives each job a PID namespace "
               "(CLONE_NEWPID in namespace.yaml), and all in it ends with the job; give the container another name in "
               "each job, or let the site set defaults.container_scope = \"job\" or take CLONE_NEWPID out";
    return "the container has ended: it was removed by force, or its helper was killed";
}

}  // namespace berth
