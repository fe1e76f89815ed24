// Acting in slurmstepd's own process, wherever Slurm calls the plugin.
//
// With SlurmdParameters=contain_spank (Slurm 24.05 and newer) Slurm calls user_init, task_post_fork and task_exit in
// processes that it makes by clone(CLONE_VM): they share slurmstepd's memory, have copies of its descriptors, live in
// the job's mounts, and end with the callback. A descriptor or a thread of such a process would be gone when the next
// callback looks for it, and its number may be that of another one by then.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth::spank {

/// A thread of the process that made it, which does what other processes of the same memory ask for. They ask by memory
/// alone: what can be reached by a descriptor could be asked for by a task, which has copies of them.
class OwnProcess {
  public:
    OwnProcess() = default;
    OwnProcess(const OwnProcess&) = delete;
    OwnProcess& operator=(const OwnProcess&) = delete;
    /// stop() must have been called.
    ~OwnProcess() = default;

    /// Makes the calling process this one. To be called once, before anything else.
    void begin();

    /// Starts the thread, so that other processes can ask. Throws Error.
    void serve();

    /// True in the process that called begin().
    bool here() const;

    /// Does `action` in this process and waits for its end; rethrows what it throws. `action` must own what it uses:
    /// the process that asks may be killed meanwhile. Throws Error where nobody serves.
    void run(std::function<void()> action);

    using Taking = std::function<void(std::vector<Fd>)>;
    /// Gives copies of the calling process's descriptors to `take`, which is called in this process and must own what
    /// it uses. To be called once, and before there are tasks. Throws Error.
    void hand_over(std::vector<Fd> descriptors, Taking take);

    /// Ends the thread. To be called in this process.
    void stop();

  private:
    struct Task {
        std::function<void()> action;
        std::exception_ptr error;
        std::atomic<int> done{0};
    };

    void serve_tasks();
    void close_pair();

    pid_t pid_ = -1;
    Fd giving_, taking_;  ///< a socket pair for hand_over()
    std::mutex mutex_;
    std::deque<std::shared_ptr<Task>> tasks_;
    /// Counts what is asked for. Not a condition variable: one that waits on it may be killed.
    std::atomic<int> asked_{0};
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace berth::spank
