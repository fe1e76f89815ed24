#include "spank/own_process.hh"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <exception>
#include <tuple>
#include <utility>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

/// The message is in the socket before it is asked for.
constexpr int receive_ms = 1000;

// std::atomic's own, which gcc 10 has not: for processes that share memory as well as for threads.
void wait_while(const std::atomic<int>& value, int seen) {
    while (value == seen) syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void wake(const std::atomic<int>& value) {
    syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void OwnProcess::begin() { pid_ = getpid(); }

bool OwnProcess::here() const { return getpid() == pid_; }

void OwnProcess::serve() {
    std::tie(giving_, taking_) = make_channel();
    // The thread must take none of slurmstepd's signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::thread([this] { serve_tasks(); });
    } catch (const std::exception& error) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw Error(cat("starting a thread in slurmstepd: ", error.what()));
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void OwnProcess::serve_tasks() {
    for (int seen = 0; !stopping_;) {
        wait_while(asked_, seen);
        seen = asked_;
        for (;;) {
            std::shared_ptr<Task> task;
            {
                std::lock_guard lock(mutex_);
                if (tasks_.empty()) break;
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
            try {
                task->action();
            } catch (...) {
                task->error = std::current_exception();
            }
            task->done = 1;
            wake(task->done);
        }
    }
}

void OwnProcess::run(std::function<void()> action) {
    if (here()) return action();
    if (!thread_.joinable())
        throw Error(
            "starting the container: Slurm calls the plugin outside of slurmstepd's own process (contain_spank of "
            "SlurmdParameters), which this release of Slurm is not known to do; take contain_spank out of slurm.conf, "
            "or install the spank_berth.so that was built for this release");
    auto task = std::make_shared<Task>();
    task->action = std::move(action);
    {
        std::lock_guard lock(mutex_);
        tasks_.push_back(task);
    }
    ++asked_;
    wake(asked_);
    wait_while(task->done, 0);
    if (task->error) std::rethrow_exception(task->error);
}

void OwnProcess::hand_over(std::vector<Fd> descriptors, Taking take) {
    if (here()) {
        close_pair();
        return take(std::move(descriptors));
    }
    std::vector<int> numbers;
    for (const Fd& fd : descriptors) numbers.push_back(fd.get());
    send_message(giving_.get(), {}, numbers, receive_ms);
    run([this, take = std::move(take)] {
        auto received = receive_message(taking_.get(), receive_ms);
        close_pair();
        if (!received) throw Error("starting the container: slurmstepd did not get the helper's socket");
        take(std::move(received->descriptors));
    });
}

/// Tasks would have copies of it.
void OwnProcess::close_pair() {
    giving_.reset();
    taking_.reset();
}

void OwnProcess::stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    ++asked_;
    wake(asked_);
    thread_.join();
    close_pair();
}

}  // namespace berth::spank
