#include "spank/watch.hh"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "spank/inhabitants.hh"

namespace berth::spank {

namespace {

/// A kill of the whole step (scancel, time limit, memory) reaches helper and tasks within this time; then there is
/// nothing to say.
constexpr int settle_ms = 500;
constexpr int look_ms = 1000;

bool is_alive(int process) {
    pollfd entry{process, POLLIN, 0};
    return poll(&entry, 1, 0) == 0;
}

}  // namespace

void Watch::add_task(pid_t task, int helper, void (*report)()) {
    Fd process = sys::pidfd_open(task);
    pid_t group = getpgid(task);
    std::lock_guard lock(mutex_);
    tasks_.push_back({task, std::move(process), group});
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
    pollfd entries[] = {{wake_.get(), POLLIN, 0}, {helper, POLLIN, 0}, {socket_, POLLIN, 0}};
    while (!over_ && entries[0].revents == 0 && entries[1].revents == 0) {
        int ready = poll(entries, 3, end_server_ != nullptr ? look_ms : -1);
        if (ready < 0 && errno != EINTR) break;
        if (pid_t task = ready == 0 ? overdue_task() : 0; task != 0) std::exchange(end_server_, nullptr)(task);
        // An empty place is passed over by poll(2).
        if (ready > 0 && entries[2].revents != 0 && !hear_()) entries[2].fd = -1;
    }
    if (over_) return kill_tasks();
    // Told to stop, while the helper is at work.
    if (is_alive(helper)) return;
    bool told = tell_cause_ != nullptr && tell_cause_();
    for (int waited = 0; !told && waited < settle_ms && tasks_alive(); waited += 50)
        if (poll(entries, 1, 50) > 0) break;
    if (!told && tasks_alive()) report();
    kill_tasks();
}

void Watch::limit_end(std::chrono::seconds kill_wait, void (*end_server)(pid_t task)) {
    overdue_ = Overdue(kill_wait);
    end_server_ = end_server;
}

/// One of the tasks when all of them are overdue; else 0.
pid_t Watch::overdue_task() {
    std::lock_guard lock(mutex_);
    std::map<pid_t, Fate> fates;
    for (const Task& task : tasks_) {
        std::optional<Fate> fate = is_alive(task.process.get()) ? fate_of(task.pid) : std::nullopt;
        if (fate) fates[task.pid] = *fate;
        // In a step that runs that is the first one: looking at all would take time from the tasks.
        if (fate == Fate::lives) break;
    }
    return overdue_.judge(fates, Overdue::Clock::now()) ? fates.begin()->first : 0;
}

bool Watch::tasks_alive() {
    std::lock_guard lock(mutex_);
    return std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return is_alive(task.process.get()); });
}

/// What tasks started is known by the groups that slurmstepd gave them: when the container has other people's processes
/// as well, and when a task has ended, since whoever killed it may not have reached the others.
void Watch::kill_groups() {
    std::set<pid_t> groups;
    for (const Task& task : tasks_) {
        groups.insert(task.group);
        // On a terminal it has made one of its own.
        pid_t now = getpgid(task.pid);
        if (spares_others_ && is_alive(task.process.get()) && now > 1 && now != getpgrp()) kill(-now, SIGKILL);
    }
    for (pid_t group : groups)
        if (group > 1 && group != getpgrp()) kill_group(group, getsid(0));
}

void Watch::kill_tasks() {
    std::lock_guard lock(mutex_);
    std::optional<NamespaceId> container;
    for (const Task& task : tasks_) {
        // A task may have gone on to a namespace of its own making.
        std::optional<NamespaceId> found = container_of(task.pid);
        // Its number is its own as long as it lives.
        if (found && is_alive(task.process.get())) container = found;
    }
    kill_groups();
    for (const Task& task : tasks_) syscall(SYS_pidfd_send_signal, task.process.get(), SIGKILL, nullptr, 0);
    if (container && !spares_others_) kill_inhabitants(*container);
}

}  // namespace berth::spank
