#include "runtime/step.hh"

#include <cstdlib>
#include <memory>
#include <optional>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/facts.hh"
#include "runtime/plan/environment_options.hh"
#include "runtime/plan/messages.hh"
#include "runtime/plan/site_file.hh"
#include "runtime/step_container.hh"
#include "runtime/step_settings.hh"
#include "runtime/step_tasks.hh"

namespace berth {

namespace {

/// Not an error: ends a pull when slurmstepd goes meanwhile.
struct StepOver {};

PullWatch watch_of(StepTasks& tasks) {
    PullWatch watch;
    watch.progress = [&tasks](const std::string& line) { tasks.show(line); };
    watch.descriptor = tasks.socket();
    watch.ready = [&tasks] {
        if (!tasks.accept()) throw StepOver{};
    };
    return watch;
}

/// What the options and the variables of the step ask for.
StepStart start_of(const plan::StepRequest& request, StepTasks& tasks) {
    plan::GivenOptions options = request.options;
    plan::add_environment_options(options, request.environment);
    StepStart out{request, plan::request_of(options), {}, caller_of_this_process(), load_site(), watch_of(tasks), tasks};
    if (const std::string* mounts = plan::given(options, "container-mounts")) out.mounts = *mounts;
    if (out.caller.uid != request.uid || out.caller.gid != request.gid) throw Error("the container's helper does not run as the owner of the step");
    out.caller.cwd = request.cwd;
    plan::apply_environment(out.site, request.settings);
    plan::apply_environment(out.site, request.environment);
    return out;
}

/// Answers the tasks until the step ends.
void serve(StepTasks& tasks, const StepTasks::Answering& answering) {
    while (tasks.serve(answering)) {
    }
}

void serve_container(StepTasks& tasks, const plan::StepRequest& request, StepContainer& container) {
    serve(tasks, [&](const plan::TaskRequest& task) { return container.answer(task.environment); });
    container.end(tasks.entered() >= request.tasks);
}

/// One task prints the error; all end with its code.
void serve_failure(StepTasks& tasks, const Error& error) {
    bool shown = false;
    serve(tasks, [&](const plan::TaskRequest&) -> StepTasks::Answer {
        return {plan::encode(plan::Failure{error.what(), error.exit_code(), std::exchange(shown, true)}), {}};
    });
}

}  // namespace

void serve_step(Fd socket) {
    auto received = receive_message(socket.get());
    if (!received) return;
    plan::StepRequest request = plan::decode_step(received->message);
    apply_step_settings(request.environment);
    StepTasks tasks(std::move(socket));
    std::unique_ptr<StepContainer> container;
    std::optional<Error> failure;
    try {
        container = start_step_container(start_of(request, tasks));
    } catch (const StepOver&) {
        return;
    } catch (const Error& error) {
        failure = error;
    } catch (const std::exception& error) {
        failure = Error(cat("starting the container: ", error.what()));
    }
    if (failure)
        serve_failure(tasks, *failure);
    else
        serve_container(tasks, request, *container);
}

}  // namespace berth
