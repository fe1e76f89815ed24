// Ends the tasks of a step when their file server has died: without it they would fail one file at a time, and might
// end as if nothing had happened.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/fd.hh"
#include "spank/overdue.hh"

namespace berth::spank {

/// A small thread in slurmstepd, started with the first task. It kills what the tasks have started in the container as
/// well: with proctrack/linuxproc nobody else would, and a process that holds the step's standard output holds the
/// step.
class Watch {
  public:
    /// Adds a task (a child of this process that has not been waited for); starts the thread with the first one.
    /// `helper` is the helper's pidfd and stays the caller's. `report` is called at most once, in the thread, before
    /// tasks are killed. Throws Error.
    void add_task(pid_t task, int helper, void (*report)());

    /// The container is also others': what lives in it besides the tasks is spared.
    void spare_others() { spares_others_ = true; }
    bool spares_others() const { return spares_others_; }

    /// Has the thread look at a task every second. When all of them should have ended (Overdue), it calls
    /// `end_server` once, with one of them: what they wait for has to fail. Call before add_task().
    void limit_end(std::chrono::seconds kill_wait, void (*end_server)(pid_t task));

    /// `tell` is called first when the helper has died, and says why if it knows: true, and nothing else is reported,
    /// also when the tasks have ended with it. Call before add_task().
    void ask_for_cause(bool (*tell)()) { tell_cause_ = tell; }

    /// `hear` is called when there is something to read at `socket`, which stays the caller's, until it returns false.
    /// Call before add_task().
    void listen(int socket, bool (*hear)()) {
        socket_ = socket;
        hear_ = hear;
    }

    /// From `hear`: the container is no more, and that has been said. The tasks end at once.
    void end_tasks() { over_ = true; }

    /// Ends the thread. Call before the helper is asked to exit.
    void stop();

  private:
    struct Task {
        pid_t pid;
        Fd process;   ///< pidfd
        pid_t group;  ///< the process group that slurmstepd gave it
    };

    void run(int helper, void (*report)());
    bool tasks_alive();
    pid_t overdue_task();
    void kill_tasks();
    void kill_groups();

    bool spares_others_ = false;
    Overdue overdue_;
    void (*end_server_)(pid_t) = nullptr;
    bool (*tell_cause_)() = nullptr;
    int socket_ = -1;
    bool (*hear_)() = nullptr;
    bool over_ = false;  ///< of the thread
    std::mutex mutex_;
    std::vector<Task> tasks_;
    Fd wake_;  ///< eventfd: readable when the thread is to end
    std::thread thread_;
};

}  // namespace berth::spank
