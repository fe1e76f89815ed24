#include "spank/watch.hh"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"

namespace berth::spank {

namespace {

/// A kill of the whole step (scancel, time limit, memory) reaches helper and tasks within this time; then there is nothing to say.
constexpr int settle_ms = 500;

}  // namespace

void Watch::add_task(pid_t task, int helper, void (*report)()) {
    Fd process = sys::pidfd_open(task);
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(process));
    if (thread_.joinable()) return;
    wake_ = Fd(eventfd(0, EFD_CLOEXEC));
    if (!wake_) throw SysError("making an eventfd");
    // The thread must take none of slurmstepd's signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, helper, report] { run(helper, report); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Watch::stop() {
    if (!thread_.joinable()) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof one);
    thread_.join();
}

void Watch::run(int helper, void (*report)()) {
    pollfd entries[] = {{wake_.get(), POLLIN, 0}, {helper, POLLIN, 0}};
    while (poll(entries, 2, -1) < 0 && errno == EINTR) {
    }
    if (entries[0].revents != 0) return;
    for (int waited = 0; waited < settle_ms; waited += 50) {
        if (!tasks_alive() || poll(entries, 1, 50) > 0) return;
    }
    report();
    kill_tasks();
}

bool Watch::tasks_alive() {
    std::lock_guard lock(mutex_);
    for (const Fd& task : tasks_) {
        pollfd entry{task.get(), POLLIN, 0};
        if (poll(&entry, 1, 0) == 0) return true;
    }
    return false;
}

void Watch::kill_tasks() {
    std::lock_guard lock(mutex_);
    for (const Fd& task : tasks_) syscall(SYS_pidfd_send_signal, task.get(), SIGKILL, nullptr, 0);
}

}  // namespace berth::spank
