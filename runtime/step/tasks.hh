// The tasks of a step that talk to its helper: each on a socket of its own.
#pragma once
#include <poll.h>

#include <atomic>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/channel.hh"
#include "runtime/plan/messages.hh"

namespace berth {

/// Not an error: ends what waits for a step that goes meanwhile.
struct StepOver {};

/// Takes in tasks from the step's socket and exchanges messages with them without ever waiting for one of them.
class StepTasks {
  public:
    /// The message that answers a task, with the descriptors to send beside it, which stay open longer than this
    /// object.
    struct Answer {
        Message message;
        std::vector<int> descriptors;
    };
    using Answering = std::function<Answer(const plan::TaskRequest&)>;

    explicit StepTasks(Fd socket) : socket_(std::move(socket)) {}

    int socket() const { return socket_.get(); }

    /// Also answers those who connect to `listener`: other steps that join the container, which may ask again and stay
    /// connected.
    void listen(Fd listener) { listener_ = std::move(listener); }

    /// A connection (-1: none) whose end, or something that comes over it, means that the container has gone: serve()
    /// throws then, see reason_of_end().
    void watch(int life_line) { life_line_ = life_line; }

    /// How many tasks have been let into the container.
    uint32_t entered() const { return entered_; }

    /// Closes all that leads to slurmstepd and the tasks: for a child that must not hold it.
    void close();

    /// Takes in the tasks that have asked to join; false at the end of the step. Never waits. Throws Error for anything
    /// but a join.
    bool accept();

    /// The environment of the first task, for which it waits; nothing when the step ends before. To be called before
    /// listen().
    std::optional<std::vector<std::string>> first_environment();

    /// Shows a line on the standard error of one waiting task (the first). While there is none yet, the last line is
    /// kept for the first one.
    void show(const std::string& line);

    /// As show(), but all such lines are kept.
    void note(const std::string& line);

    /// Shows what comes over this socket, the lines of the debug log, as long as a task waits as note() does. While the
    /// tasks run it shows the first few as say() does: slurmstepd takes no more.
    void show_log(Fd log) { log_ = std::move(log); }

    /// What has come of it by now; also done before each line that is shown or noted.
    void pass_log();

    /// Has slurmstepd show a line, while the tasks run or after their end; cut where slurmstepd would not take it. Of
    /// more than plan::said_lines the rest is left out: slurmstepd would kill a helper that says more. From any thread.
    void say(const std::string& line) { say(plan::progress_message(line.substr(0, plan::said_line_limit))); }

    /// As say(), when the container is no more: slurmstepd ends the tasks that run.
    void say_last(const std::string& line) { say(plan::last_message(line.substr(0, plan::said_line_limit))); }

    /// Waits for something to happen and handles it: reads the tasks' requests, answers them, forgets who is answered
    /// or gone. False at the end of the step.
    bool serve(const Answering& answering);

    /// True when a task has gone before it got its answer: killed, since a task waits for nothing else. Never waits.
    bool lost() const;

  private:
    struct Task {
        Fd socket;
        Inbox inbox;
        Outbox outbox;
        std::optional<plan::TaskRequest> request = {};
        bool answered = false;
        bool gone = false;
        bool stays = false;  ///< another step: may ask again, and is connected for as long as it uses the container
    };

    void say(const Message& message);
    void keep(const std::string& line);
    void put(const std::string& line);
    Task* first_task();
    void accept_other_step();
    bool poll(const std::function<void(Task&, int events)>& action);
    void read_request(Task& task, int events);
    void handle(Task& task, int events, const Answering& answering);
    std::vector<pollfd> waiting() const;

    Fd socket_;
    Inbox inbox_;
    std::list<Task> tasks_;
    Fd listener_;
    int life_line_ = -1;
    Fd log_;
    size_t logged_ = 0;  ///< lines of the log to slurmstepd
    uint32_t entered_ = 0;
    std::atomic<size_t> said_ = 0;  ///< lines to slurmstepd
    std::vector<std::string> unseen_notes_;
    std::string unseen_line_;
    bool lost_ = false;
    bool refused_ = false;  ///< a task of the step's own, which says why
};

}  // namespace berth
