#include "runtime/step/tasks.hh"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/container/start.hh"

namespace berth {

namespace {

constexpr const char* other_release =
    "starting the container: the plugin spank_berth.so and the program berth of this node are of different releases; "
    "install both from one release";

constexpr size_t log_lines_meanwhile = 10;

bool is_over(int events) { return (events & (POLLHUP | POLLERR)) != 0; }

}  // namespace

bool StepTasks::accept() {
    pass_log();
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
        for (const std::string& line : std::exchange(unseen_notes_, {})) put(line);
        if (!unseen_line_.empty()) put(std::exchange(unseen_line_, {}));
    }
}

void StepTasks::close() {
    tasks_.clear();
    listener_.reset();
    socket_.reset();
    log_.reset();
}

void StepTasks::note(const std::string& line) {
    pass_log();
    keep(line);
}

void StepTasks::show(const std::string& line) {
    pass_log();
    put(line);
}

/// For the first task, and those of a time when there is none for the one that comes.
void StepTasks::keep(const std::string& line) {
    if (first_task() == nullptr)
        unseen_notes_.push_back(line);
    else
        put(line);
}

void StepTasks::pass_log() {
    char line[8192];
    for (ssize_t size; log_ && (size = ::recv(log_.get(), line, sizeof line, MSG_DONTWAIT)) > 0;) {
        std::string text(line, static_cast<size_t>(size));
        if (entered_ == 0 || first_task() != nullptr)
            keep(text);
        else if (++logged_ < log_lines_meanwhile)
            say(text);
        else if (logged_ == log_lines_meanwhile)
            say("debug: the rest of the log is left out: Slurm shows few lines while tasks run");
    }
}

void StepTasks::say(const Message& message) {
    if (++said_ > plan::said_lines) return;
    try {
        send_message(socket_.get(), message, {}, 1000);
    } catch (const Error&) {
        // slurmstepd was killed: nobody to tell.
    }
}

/// The container is its user's alone; a descriptor that was passed on proves nothing.
void StepTasks::accept_other_step() {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (socket && ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid()) {
        tasks_.push_back({std::move(socket), {}, {}});
        tasks_.back().stays = true;
    }
}

StepTasks::Task* StepTasks::first_task() {
    for (Task& task : tasks_)
        if (!task.stays) return &task;
    return nullptr;
}

void StepTasks::put(const std::string& line) {
    Task* first = first_task();
    if (first == nullptr) {
        unseen_line_ = line;
        return;
    }
    if (first->gone) return;
    try {
        first->outbox.push(plan::progress_message(line));
        first->outbox.flush(first->socket.get());
    } catch (const Error&) {
        first->gone = true;  // Killed meanwhile: nobody to tell.
    }
}

bool StepTasks::serve(const Answering& answering) {
    return poll([&](Task& task, int events) { handle(task, events, answering); });
}

std::optional<std::vector<std::string>> StepTasks::first_environment() {
    for (;;) {
        for (const Task& task : tasks_)
            if (task.request) return task.request->environment;
        if (!poll([this](Task& task, int events) { read_request(task, events); })) return std::nullopt;
    }
}

/// Waits until something has happened and lets `action` look at the tasks that it happened to; false at the end of the
/// step.
bool StepTasks::poll(const std::function<void(Task&, int)>& action) {
    pass_log();
    std::vector<pollfd> entries = waiting();
    bool answer_due =
        std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.request.has_value(); });
    if (::poll(entries.data(), entries.size(), answer_due ? 0 : -1) < 0) {
        if (errno == EINTR) return true;
        throw SysError("waiting for the tasks of the step");
    }
    if (entries[2].revents != 0) throw Error(reason_of_end(life_line_));
    size_t position = 3;
    for (Task& task : tasks_) {
        int events = entries[++position].revents;
        // Whatever is wrong with one task's connection ends that connection alone.
        try {
            if (events != 0 || task.request) action(task, events);
        } catch (const Error&) {
            task.gone = true;
        }
        if (task.gone && !task.stays) lost_ = true;
    }
    tasks_.remove_if([](const Task& task) { return task.gone || (task.answered && task.outbox.empty()); });
    if (entries[1].revents != 0) accept_other_step();
    return entries[0].revents == 0 || accept();
}

bool StepTasks::lost() const {
    std::vector<pollfd> entries = waiting();
    if (lost_ || ::poll(entries.data(), entries.size(), 0) <= 0) return lost_;
    size_t position = 3;
    return std::any_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
        return is_over(entries[++position].revents) && !task.answered && !task.stays;
    });
}

std::vector<pollfd> StepTasks::waiting() const {
    // An empty place (-1) is passed over by poll(2).
    std::vector<pollfd> entries = {{socket_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}, {life_line_, POLLIN, 0},
                                   {log_.get(), POLLIN, 0}};
    for (const Task& task : tasks_) {
        int events = (task.answered ? 0 : POLLIN) | (task.outbox.empty() ? 0 : POLLOUT);
        entries.push_back({task.socket.get(), static_cast<short>(events), 0});
    }
    return entries;
}

/// Takes the task's request when it has come, and notes when the task has gone.
void StepTasks::read_request(Task& task, int events) {
    // What a task asked before it was killed is not answered: the one answer that is shown would be lost with it.
    task.gone = is_over(events);
    if (task.gone || task.answered || task.request) return;
    Inbox::Status status = task.inbox.read(task.socket.get());
    if (status == Inbox::Status::closed) task.gone = true;
    if (status != Inbox::Status::message) return;
    Message message = task.inbox.take().message;
    if (auto refusal = plan::refusal_of(message)) {
        // Of the step's own tasks one says it, in the words for those who install.
        if (!task.stays) *refusal = {other_release, exit_failure, std::exchange(refused_, true)};
        task.outbox.push(plan::encode(*refusal));
        task.answered = !task.stays;
    } else {
        task.request = plan::decode_task(message);
    }
}

void StepTasks::handle(Task& task, int events, const Answering& answering) {
    read_request(task, events);
    if (task.gone) return;
    if (task.request) {
        Answer answer = answering(*task.request);
        task.request.reset();
        task.outbox.push(answer.message, answer.descriptors);
        task.answered = !task.stays;
        if (!task.stays && plan::is(answer.message, plan::MessageType::ready)) ++entered_;
    }
    task.outbox.flush(task.socket.get());
}

}  // namespace berth
