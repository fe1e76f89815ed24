#include "runtime/step_tasks.hh"

#include <algorithm>
#include <cerrno>

#include "runtime/base/error.hh"

namespace berth {

bool StepTasks::accept() {
    for (;;) {
        switch (inbox_.read(socket_.get())) {
            case Inbox::Status::nothing:
                return true;
            case Inbox::Status::closed:
                return false;
            case Inbox::Status::message:
                break;
        }
        Received received = inbox_.take();
        if (!plan::is(received.message, plan::MessageType::join) || received.descriptors.size() != 1)
            throw Error("reading the step's socket: a message that is no task's request to join");
        tasks_.push_back({std::move(received.descriptors[0]), {}, {}});
        if (!unseen_line_.empty()) show(std::exchange(unseen_line_, {}));
    }
}

void StepTasks::show(const std::string& line) {
    if (tasks_.empty()) {
        unseen_line_ = line;
        return;
    }
    Task& first = tasks_.front();
    if (first.gone) return;
    try {
        first.outbox.push(plan::progress_message(line));
        first.outbox.flush(first.socket.get());
    } catch (const Error&) {
        first.gone = true;  // Killed meanwhile: nobody to tell.
    }
}

bool StepTasks::serve(const Answering& answering) {
    return poll([&](Task& task) { handle(task, answering); });
}

std::optional<std::vector<std::string>> StepTasks::first_environment() {
    for (;;) {
        for (const Task& task : tasks_)
            if (task.request) return task.request->environment;
        if (!poll(read_request)) return std::nullopt;
    }
}

/// Waits until something has happened and lets `action` look at the tasks that it happened to; false at the end of the step.
bool StepTasks::poll(const std::function<void(Task&)>& action) {
    std::vector<pollfd> entries = waiting();
    bool answer_due = std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.request.has_value(); });
    if (::poll(entries.data(), entries.size(), answer_due ? 0 : -1) < 0) {
        if (errno == EINTR) return true;
        throw SysError("waiting for the tasks of the step");
    }
    size_t position = 0;
    for (Task& task : tasks_) {
        ++position;
        // Whatever is wrong with one task's connection ends that connection alone.
        try {
            if (entries[position].revents != 0 || task.request) action(task);
        } catch (const Error&) {
            task.gone = true;
        }
    }
    tasks_.remove_if([](const Task& task) { return task.gone || (task.answered && task.outbox.empty()); });
    return entries[0].revents == 0 || accept();
}

std::vector<pollfd> StepTasks::waiting() const {
    std::vector<pollfd> entries = {{socket_.get(), POLLIN, 0}};
    for (const Task& task : tasks_) {
        int events = (task.answered ? 0 : POLLIN) | (task.outbox.empty() ? 0 : POLLOUT);
        entries.push_back({task.socket.get(), static_cast<short>(events), 0});
    }
    return entries;
}

/// Takes the task's request when it has come, and notes when the task has gone.
void StepTasks::read_request(Task& task) {
    Inbox::Status status = task.inbox.read(task.socket.get());
    if (status == Inbox::Status::closed) task.gone = true;
    if (status == Inbox::Status::message) task.request = plan::decode_task(task.inbox.take().message);
}

void StepTasks::handle(Task& task, const Answering& answering) {
    if (!task.answered && !task.request) read_request(task);
    if (task.request) {
        Answer answer = answering(*task.request);
        task.outbox.push(answer.message, answer.descriptors);
        task.answered = true;
        task.request.reset();
    }
    if (!task.gone) task.outbox.flush(task.socket.get());
}

}  // namespace berth
