#include "runtime/step.hh"

#include <cstdlib>
#include <optional>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/container_start.hh"
#include "runtime/facts.hh"
#include "runtime/image_source.hh"
#include "runtime/plan/environment_options.hh"
#include "runtime/plan/messages.hh"
#include "runtime/plan/plan.hh"
#include "runtime/plan/reference.hh"
#include "runtime/plan/site_file.hh"
#include "runtime/step_settings.hh"
#include "runtime/step_tasks.hh"

namespace berth {

namespace {

/// Not an error: ends a pull when slurmstepd goes meanwhile.
struct StepOver {};

struct RunningContainer {
    plan::EnvironmentRules environment;
    StartedContainer container;
};

plan::Job job_of(const plan::StepRequest& request) {
    plan::Job job;
    job.id = cat(request.job, '.', request.step);
    job.node = request.node;
    if (!request.batch_script.empty()) job.bind_read_only.push_back(request.batch_script);
    return job;
}

/// A step that lacks a task from its start cannot do what it was made for, and the others might wait for it for ever.
void expect_all(const StepTasks& tasks) {
    if (tasks.lost()) throw Error("starting the container: a task of the step was killed while it waited (by its user, or for memory); the step ends");
}

PullWatch watch_of(const plan::Request& wanted, StepTasks& tasks) {
    PullWatch watch;
    // Scripts look for the words that Pyxis has here, followed by the image as it was asked for.
    bool from_registry = !wanted.image.empty() && plan::parse_reference(wanted.image).kind == plan::Reference::Kind::registry;
    if (from_registry) watch.failure = cat("failed to import docker image: ", printable(wanted.image, 4096), ": ");
    watch.progress = [&tasks](const std::string& line) {
        tasks.show(line);
        expect_all(tasks);
    };
    watch.descriptor = tasks.socket();
    watch.ready = [&tasks] {
        if (!tasks.accept()) throw StepOver{};
    };
    return watch;
}

/// The home that counts inside is the job's, as everywhere in Slurm; logins and settings keep to the account's.
void take_home(plan::Caller& caller, const std::vector<std::string>& environment) {
    for (const std::string& entry : environment)
        if (entry.starts_with("HOME=/")) caller.home = entry.substr(5);
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
    take_home(caller, request.environment);
    plan::Site site = load_site();
    plan::apply_environment(site, request.settings);
    plan::apply_environment(site, request.environment);
    OpenedImage opened = open_image(wanted.image, caller, site, watch_of(wanted, tasks));
    plan::Plan plan = plan::make_plan(wanted, caller, job_of(request), site, host_facts(), opened.image.index.config());
    return {plan.environment, start_container(plan, std::move(opened.image), site)};
}

/// One task prints the error; all end with its code.
void serve_failure(StepTasks& tasks, const Error& error) {
    bool shown = false;
    auto answer = [&](const plan::TaskRequest&) -> StepTasks::Answer {
        return {plan::encode(plan::Failure{error.what(), error.exit_code(), std::exchange(shown, true)}), {}};
    };
    while (tasks.serve(answer)) {
    }
}

void serve_container(StepTasks& tasks, const RunningContainer& running) {
    const StartedContainer& container = running.container;
    auto answer = [&](const plan::TaskRequest& task) -> StepTasks::Answer {
        plan::Ready ready{container.workdir, plan::environment_changes(running.environment, task.environment), container.seccomp_program};
        StepTasks::Answer out{{}, {container.user_namespace.get(), container.mount_namespace.get()}};
        for (const OwnNamespace& own : container.namespaces) {
            ready.namespaces.push_back(static_cast<uint32_t>(own.type));
            out.descriptors.push_back(own.fd.get());
        }
        out.message = plan::encode(ready);
        return out;
    };
    try {
        while (tasks.serve(answer)) expect_all(tasks);
    } catch (const Error& error) {
        // Those that run already end here; those that wait are told.
        end_container(container);
        serve_failure(tasks, error);
        return;
    }
    end_container(container);
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
