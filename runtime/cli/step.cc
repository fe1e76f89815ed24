// `berth step`: started by the plugin from slurmstepd, never by hand.
#include "runtime/step/step.hh"

#include <fcntl.h>
#include <sys/socket.h>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/cli/commands.hh"

namespace berth::cli {

int step(int, char**) {
    constexpr int socket = 3;  // As spank/helper.cc leaves it.
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
        throw Error("berth step is started by Slurm's plugin only; use berth run");
    // The descriptor came through exec, so it is not close-on-exec yet; berth-pull must not hold the step's life line.
    if (fcntl(socket, F_SETFD, FD_CLOEXEC) != 0) throw SysError("preparing the step's socket");
    serve_step(Fd(socket));
    return 0;
}

}  // namespace berth::cli
