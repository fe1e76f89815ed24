#include "runtime/pull/commands/save_process.hh"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <thread>

#include "runtime/base/end_signals.hh"
#include "runtime/base/error.hh"
#include "runtime/pull/export/output_file.hh"
#include "runtime/sandbox/user_namespace.hh"

namespace berth::pull {

void read_everything() {
    if (::geteuid() == 0) return;
    int ends_with_parent = 0;
    ::prctl(PR_GET_PDEATHSIG, &ends_with_parent);
    try {
        sandbox::enter_user_namespace({::geteuid(), ::geteuid(), ::getegid(), ::getegid()});
    } catch (const Error&) {
        // Then such a file is what the error is about, if there is one.
    }
    // The new credentials took it back.
    ::prctl(PR_SET_PDEATHSIG, ends_with_parent);
}

void abandon_at_signals() {
    static EndSignals signals;
    std::thread([] {
        pollfd entry{signals.descriptor(), POLLIN, 0};
        int signal = 0;
        while (signal == 0)
            if (::poll(&entry, 1, -1) > 0) signal = signals.take();
        OutputFile::abandon_all();
        ::_exit(128 + signal);
    }).detach();
}

}  // namespace berth::pull
