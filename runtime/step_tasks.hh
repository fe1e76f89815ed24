// The tasks of a step that talk to its helper: each on a socket of its own.
#pragma once
#include <poll.h>

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/channel.hh"
#include "runtime/plan/messages.hh"

namespace berth {

/// Takes in tasks from the step's socket and exchanges messages with them without ever waiting for one of them.
class StepTasks {
  public:
    /// The message that answers a task, with the descriptors to send beside it, which stay open longer than this object.
    struct Answer {
        Message message;
        std::vector<int> descriptors;
    };
    using Answering = std::function<Answer(const plan::TaskRequest&)>;

    explicit StepTasks(Fd socket) : socket_(std::move(socket)) {}

    int socket() const { return socket_.get(); }

    /// Takes in the tasks that have asked to join; false at the end of the step. Never waits. Throws Error for anything but a join.
    bool accept();

    /// The environment of the first task, for which it waits; nothing when the step ends before.
    std::optional<std::vector<std::string>> first_environment();

    /// Shows a line on the standard error of one waiting task (the first); kept for the first task when there is none yet.
    void show(const std::string& line);

    /// Waits for something to happen and handles it: reads the tasks' requests, answers them, forgets who is answered or gone. False at the end
    /// of the step.
    bool serve(const Answering& answering);

  private:
    struct Task {
        Fd socket;
        Inbox inbox;
        Outbox outbox;
        std::optional<plan::TaskRequest> request = {};
        bool answered = false;
        bool gone = false;
    };

    bool poll(const std::function<void(Task&)>& action);
    static void read_request(Task& task);
    static void handle(Task& task, const Answering& answering);
    std::vector<pollfd> waiting() const;

    Fd socket_;
    Inbox inbox_;
    std::list<Task> tasks_;
    std::string unseen_line_;
};

}  // namespace berth
