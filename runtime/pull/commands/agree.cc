// `berth-pull agree NODES`: what srun starts beside itself for the nodes of a step.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/nodes/tracker/tracker_server.hh"
#include "runtime/request/frozen.hh"

namespace berth::pull {

namespace {

/// The standard input as a listening socket that does not block.
Fd listening_input() {
    int is_listening = 0;
    socklen_t size = sizeof is_listening;
    int flags = ::fcntl(STDIN_FILENO, F_GETFL);
    if (::getsockopt(STDIN_FILENO, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0 || is_listening == 0)
        return Fd();
    if (::fcntl(STDIN_FILENO, F_SETFL, flags | O_NONBLOCK) != 0) throw SysError("taking srun's socket");
    return Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
}

}  // namespace

int agree_command(int argc, char** argv) {
    uint64_t nodes = 0;
    const char* secret = std::getenv(plan::secret_variable);
    Fd listening = listening_input();
    if (argc != 2 || !parse_number(argv[1], UINT32_MAX, nodes) || secret == nullptr || !listening)
        throw Error("berth agree NODES is for srun, which gives it a socket and a secret");
    // The secret is for no other process of the user, among which those of an image may be.
    ::prctl(PR_SET_DUMPABLE, 0);
    // It is srun's, whatever becomes of that.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == 1) return 0;
    nodes::serve_tracker(std::move(listening), secret, static_cast<unsigned>(nodes));
}

}  // namespace berth::pull
