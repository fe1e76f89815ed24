#include "runtime/base/end_signals.hh"

#include <sys/signalfd.h>

#include "runtime/base/error.hh"

namespace berth {

EndSignals::EndSignals() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        struct sigaction now {};
        // Blocked, an ignored one would be seen all the same: nohup has to keep its effect.
        if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&set, number);
    }
    signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw SysError("watching for signals");
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

EndSignals::~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int EndSignals::take() const {
    signalfd_siginfo came{};
    bool any = ::read(signals_.get(), &came, sizeof came) == static_cast<ssize_t>(sizeof came);
    return any ? static_cast<int>(came.ssi_signo) : 0;
}

void die_by(int signal) {
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    ::signal(signal, SIG_DFL);
    ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    ::raise(signal);
}

}  // namespace berth
