#include "runtime/step.hh"

#include <cstdlib>
#include <optional>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/container_start.hh"
#include "runtime/devices.hh"
#include "runtime/facts.hh"
#include "runtime/image_source.hh"
#include "runtime/plan/environment_options.hh"
#include "runtime/plan/messages.hh"
#include "runtime/plan/plan.hh"
#include "runtime/plan/site_file.hh"
#include "runtime/step_settings.hh"
#include "runtime/step_tasks.hh"

namespace berth {

namespace {

/// Not an error: ends a pull when slurmstepd goes meanwhile.
struct StepOver {};

struct RunningContainer {
    plan::EnvironmentRules environment;
    std::vector<plan::VisibleDevice> devices;
    StartedContainer container;
};

plan::Job job_of(const plan::StepRequest& request) {
    plan::Job job;
    job.id = cat(request.job, '.', request.step);
    job.node = request.node;
    if (!request.batch_script.empty()) job.bind_read_only.push_back(request.batch_script);
    return job;
}

PullWatch watch_of(StepTasks& tasks) {
    PullWatch watch;
    watch.progress = [&tasks](const std::string& line) { tasks.show(line); };
    watch.descriptor = tasks.socket();
    watch.ready = [&tasks] {
        if (!tasks.accept()) throw StepOver{};
    };
    return watch;
}

/// The table of contents of a start.
RunningContainer start(const plan::StepRequest& request, StepTasks& tasks) {
    plan::GivenOptions options = request.options;
    plan::add_environment_options(options, request.environment);
    plan::Request wanted = plan::request_of(options);
    // Never silently without effect.
    if (wanted.name || !wanted.save.empty() || wanted.entrypoint.value_or(false))
        throw Error("--container-name, --container-save and --container-entrypoint are not there yet in this version of berth");
    plan::Caller caller = caller_of_this_process();
    if (caller.uid != request.uid || caller.gid != request.gid) throw Error("the container's helper does not run as the owner of the step");
    caller.cwd = request.cwd;
    plan::Site site = load_site();
    plan::apply_environment(site, request.settings);
    plan::apply_environment(site, request.environment);
    OpenedImage opened = open_image(wanted.image, caller, site, watch_of(tasks));
    plan::Additions devices = device_additions(opened.image, site, request.environment, [&](const std::string& line) { tasks.show(line); });
    plan::Plan plan = plan::make_plan(wanted, caller, job_of(request), site, host_facts(), opened.image.index.config(), devices);
    return {plan.environment, plan.devices, start_container(plan, std::move(opened.image), site)};
}

/// Answers the tasks until the step ends.
void serve(StepTasks& tasks, const StepTasks::Answering& answering) {
    while (tasks.serve(answering)) {
    }
}

void serve_container(StepTasks& tasks, const RunningContainer& running) {
    const StartedContainer& container = running.container;
    serve(tasks, [&](const plan::TaskRequest& task) -> StepTasks::Answer {
        plan::Ready ready{container.workdir, plan::environment_changes(running.environment, task.environment), container.seccomp_program, {}, false, true, running.devices};
        StepTasks::Answer out{{}, {container.user_namespace.get(), container.mount_namespace.get()}};
        for (const OwnNamespace& own : container.namespaces) {
            ready.namespaces.push_back(static_cast<uint32_t>(own.type));
            out.descriptors.push_back(own.fd.get());
        }
        out.message = plan::encode(ready);
        return out;
    });
    end_container(container);
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
    std::optional<RunningContainer> running;
    std::optional<Error> failure;
    try {
        running = start(request, tasks);
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
        serve_container(tasks, *running);
}

}  // namespace berth
