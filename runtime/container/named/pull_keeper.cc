#include "runtime/container/named/pull_keeper.hh"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <tuple>
#include <utility>

#include "runtime/base/channel.hh"
#include "runtime/base/child.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/host/pull_program.hh"

namespace berth {

namespace {

constexpr int tries = 3;  ///< of a pull that was killed

/// The life of the process.
class Keeper {
  public:
    Keeper(Fd starter, pid_t helper) : starter_(std::move(starter)), helper_(helper) {}

    void run(const EarlyPull& pull) {
        read_to_end(pull.lifeline);
        // One that finds all of it in the store ends at once.
        for (int i = 0; i < tries; ++i) {
            Child child(pull_program(), pull.arguments);
            read_to_end(child.output());
            if (child.wait() <= 128) return;
        }
    }

  private:
    /// Of what a pull prints, which nobody wants to know.
    void read_to_end(int pull) {
        for (;;) {
            pollfd entries[] = {{pull, POLLIN, 0}, {starter_.get(), POLLIN, 0}};
            if (sys::uninterrupted([&] { return ::poll(entries, 2, -1); }) < 0) return;
            if (entries[1].revents != 0) hear_starter();
            char unread[4096];
            if (entries[0].revents != 0 && sys::uninterrupted([&] { return ::read(pull, unread, sizeof unread); }) <= 0)
                return;
        }
    }

    void hear_starter() {
        char started = 0;
        bool is_told = sys::uninterrupted([&] { return ::read(starter_.get(), &started, 1); }) == 1;
        if (!is_told && ::getppid() == helper_) ::kill(helper_, SIGKILL);
        starter_.reset();
    }

    Fd starter_;
    pid_t helper_;
};

}  // namespace

KeeperPipes::KeeperPipes() {
    std::tie(pulls_end_, pulls_) = sys::make_pipe();
    std::tie(starter_end_, started_) = make_channel();
}

void KeeperPipes::keep_those_of_starter() {
    pulls_end_.reset();
    pulls_.reset();
    starter_end_.reset();
}

void KeeperPipes::tell_started() {
    char started = 1;
    // The keeper may have been killed with its helper.
    [[maybe_unused]] ssize_t told = ::send(started_.get(), &started, 1, MSG_NOSIGNAL);
    started_.reset();
}

Pid start_pull_keeper(const EarlyPull& pull, KeeperPipes& pipes) {
    pid_t caller = ::getpid(), child = ::fork();
    if (child < 0) throw SysError("starting the process that goes on with the pull of the image");
    if (child > 0) {
        pipes.pulls_.reset();
        pipes.starter_end_.reset();
        return Pid(child);
    }
    try {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != caller) ::_exit(exit_failure);
        sys::close_descriptors_except({pull.lifeline, pipes.pulls_.get(), pipes.starter_end_.get()});
        Keeper(std::move(pipes.starter_end_), caller).run(pull);
    } catch (const std::exception&) {
        // The end of its pipe tells whoever waits.
    }
    ::_exit(0);
}

void await_early_start(int connection, const std::function<bool()>& attend) {
    constexpr int slice_ms = 50;
    for (;;) {
        pollfd entry{connection, POLLIN, 0};
        int ready = ::poll(&entry, 1, slice_ms);
        if (ready > 0) return;
        if (ready < 0 && errno != EINTR) throw SysError("waiting for the start of a container");
        attend();
    }
}

}  // namespace berth
