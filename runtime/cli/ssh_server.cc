#include "runtime/cli/ssh_server.hh"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/base/command.hh"
#include "runtime/base/error.hh"
#include "runtime/base/pid.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/relay.hh"
#include "runtime/cli/ssh_keys.hh"
#include "runtime/container/start.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/own_program.hh"

namespace berth::cli {

namespace {

std::string sshd_program() try {
    const char* path = std::getenv("PATH");
    return find_command("sshd", cat(path != nullptr ? path : "", ":/usr/sbin:/usr/local/sbin:/sbin"));
} catch (const Error&) {
    throw Error("serving ssh in a job: this node has no sshd; install the package openssh-server on the nodes (its "
                "service is not needed), or use berth exec --job",
                exit_not_found);
}

/// One socket as its input and output: what comes from srun are pipes, which some releases of sshd do not take.
Pid start_sshd(const SshServer& server, int socket) {
    std::string program = sshd_program();
    std::vector<std::string> words = sshd_words(server);
    std::vector<char*> arguments = {program.data()};
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    pid_t pid = -1;
    int error = posix_spawn_file_actions_init(&files);
    if (error == 0) error = posix_spawnattr_init(&attributes);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&files, socket, STDOUT_FILENO);
    if (error == 0) error = posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0) error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (error == 0) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (error == 0) error = posix_spawn(&pid, program.c_str(), &files, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) throw SysError(cat("starting ", program), error);
    return Pid(pid);
}

/// False when the container has ended before sshd.
bool wait_for(const Pid& sshd, int connection) {
    Fd process = sys::pidfd_open(sshd.get());
    pollfd wait[2] = {{process.get(), POLLIN, 0}, {connection, POLLIN, 0}};
    while (::poll(wait, 2, -1) < 0) {
    }
    return wait[0].revents != 0;
}

}  // namespace

int serve_ssh(const JobContainer& container) {
    plan::Caller caller = caller_of_this_process();
    if (caller.user.empty())
        throw Error(cat("serving ssh in a job: the node has no account of the number ", caller.uid,
                        ", which sshd needs; use berth exec --job"));
    SshFiles files(caller.home);
    make_ssh_keys(files);
    // The session's environment is this process's, which sshd does not pass on.
    std::string session = cat(shell_word(own_program_path()), " enter --session-of ", ::getpid(), " ",
                              container.step);
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw SysError("serving ssh in a job");
    Fd ours(ends[0]), theirs(ends[1]);
    // Whoever reads may go before sshd does.
    ::signal(SIGPIPE, SIG_IGN);
    Pid sshd = start_sshd({caller.user, files, session}, theirs.get());
    theirs.reset();
    Relay in(STDIN_FILENO, ours.get(), true), out(ours.get(), STDOUT_FILENO);
    if (!wait_for(sshd, container.connection.get())) {
        sshd.send(SIGTERM);
        sshd.wait();
        throw Error(reason_of_end(container.connection.get()));
    }
    int code = sshd.wait();
    out.finish();
    // sshd says so when its client is gone, which is how a connection ends.
    return code == 255 ? 0 : code;
}

}  // namespace berth::cli
