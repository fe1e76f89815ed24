#include "runtime/step/step.hh"

#include <poll.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "runtime/base/channel.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/enroot_config.hh"
#include "runtime/host/facts.hh"
#include "runtime/plan/messages.hh"
#include "runtime/enroot/settings.hh"
#include "runtime/request/carried.hh"
#include "runtime/request/definition.hh"
#include "runtime/request/environment_options.hh"
#include "runtime/request/frozen.hh"
#include "runtime/request/mount_values.hh"
#include "runtime/request/option_names.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/unknown_variables.hh"
#include "runtime/request/values.hh"
#include "runtime/step/container.hh"
#include "runtime/step/mig.hh"
#include "runtime/step/settings.hh"
#include "runtime/step/tasks.hh"

namespace berth {

namespace {

/// A step that lacks a task from its start cannot do what it was made for, and the others might wait for it for ever.
void expect_all(const StepTasks& tasks) {
    if (tasks.lost())
        throw Error(
            "starting the container: a task of the step was killed while it waited (by its user, or for memory); the "
            "step ends");
}

PullWatch watch_of(const plan::Request& wanted, StepTasks& tasks) {
    PullWatch watch;
    // Scripts look for the words that Pyxis has here, followed by the image as it was asked for.
    if (wanted.image && wanted.image->kind == plan::Reference::Kind::registry)
        watch.failure = cat("failed to import docker image: ", printable(wanted.image->written, 4096), ": ");
    watch.progress = [&tasks](const std::string& line) {
        tasks.show(line);
        expect_all(tasks);
    };
    watch.descriptor = tasks.socket();
    watch.over = [socket = tasks.socket()] {
        pollfd step{socket, 0, 0};
        return ::poll(&step, 1, 0) > 0 && (step.revents & (POLLHUP | POLLERR)) != 0;
    };
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

/// What the step was given, by Slurm or else, for a batch script, by what sbatch has left in its environment; and what
/// the job's variables stand for.
plan::GivenOptions options_of(const plan::StepRequest& step) {
    plan::GivenOptions out = step.options;
    if (step.step == "batch") plan::add_carried_options(out, step.environment);
    plan::add_environment_options(out, step.environment);
    plan::complete_mounts(out, step.environment);
    return out;
}

/// What a batch script's submission asked for in vain; empty when that is nothing.
std::string missing_note(plan::GivenOptions options, const plan::StepRequest& step) {
    if (step.step != "batch") return {};
    if (const std::string* name = plan::given(options, "container-environment"))
        if (auto definition = plan::definition_in(step.environment, *name))
            for (const auto& [word, value] : definition->options) plan::add_option_if_new(options, word, value);
    return plan::missing_note(options, step.environment);
}

/// What these and the environment file ask for, which was read by srun or sbatch.
plan::Request request_of(const plan::StepRequest& step, const plan::GivenOptions& given) {
    plan::GivenOptions options = given;
    const std::string* name = plan::given(options, "container-environment");
    if (name == nullptr || name->empty()) return plan::request_of(options);
    std::optional<plan::Definition> definition = plan::definition_in(step.environment, *name);
    if (!definition)
        throw Error(cat("--container-environment: ", printable(*name, 1024),
                        " was not read where the step was asked for; use srun or sbatch of a machine with Berth's "
                        "plugin"));
    plan::remove_replaced(options, *definition);
    plan::remove_unwanted(*definition, options);
    plan::Request out = plan::request_of(options);
    plan::complete(out, *definition);
    return out;
}

plan::Signs signs_of(const plan::StepRequest& request, const plan::Caller& caller) {
    plan::Signs out = plan::signs_in(request.environment);
    out.home = caller.home;
    out.user = caller.user.empty() ? std::to_string(caller.uid) : caller.user;
    // The environment is the user's; of these the node knows better.
    out.job = std::to_string(request.job);
    out.step = request.step;
    out.node = request.node;
    out.node_index = std::to_string(request.node_index);
    if (out.array_job.empty()) out.array_job = out.job;
    return out;
}

/// What no shell has expanded; before anything is compared with a policy.
void expand_values(StepStart& start, const plan::StepRequest& request) {
    plan::Signs signs = signs_of(request, start.caller);
    plan::Request& wanted = start.wanted;
    auto of_option = [](const char* name, auto expand) {
        try {
            expand();
        } catch (const Error& error) {
            throw Error(cat("--", name, ": ", error.what()));
        }
    };
    of_option("container-image", [&] {
        if (wanted.image) wanted.image = plan::image_with_home(*wanted.image, signs.home);
    });
    of_option("container-name", [&] {
        if (!wanted.name) return;
        wanted.name->name = plan::with_signs(wanted.name->name, signs);
        plan::check_container_name(wanted.name->name);
    });
    of_option("container-save", [&] {
        bool here = plan::saves_on_each_node(wanted.save) || request.node_index == 0;
        if (wanted.save.empty() || !here) return;
        start.save_path = plan::expanded_save_path(wanted.save, signs);
        start.save_path = path_from(request.cwd, start.save_path);
    });
}

/// What the options and the variables of the step ask for. From here on the step's environment, which programs of the
/// site get, lacks the secret by which its nodes share the image.
StepStart start_of(plan::StepRequest& request, StepTasks& tasks) {
    plan::check_option_names(request.environment);
    check_mig(request.environment, request.job);
    plan::GivenOptions options = options_of(request);
    StepStart out{request, request_of(request, options), {}, caller_of_this_process(), load_site(), {}, tasks};
    out.watch = watch_of(out.wanted, tasks);
    if (out.caller.uid != request.uid || out.caller.gid != request.gid)
        throw Error("the container's helper does not run as the owner of the step");
    out.caller.cwd = request.cwd;
    take_home(out.caller, request.environment);
    expand_values(out, request);
    plan::apply_environment(out.site, request.settings, plan::Authority::site);
    plan::apply_environment(out.site, request.environment);
    for (const std::string& note : add_enroot_config(out.site, request.environment)) tasks.note("warning: " + note);
    std::string image = out.wanted.image_text();
    if (out.site.slurm.resolve_tags == plan::TagResolver::submit)
        out.tag.digest = plan::frozen_digest(request.environment, image);
    out.watch.refused_logins = plan::refused_logins(request.environment, image);
    out.watch.variable = [&request](const std::string& name) -> std::optional<std::string> {
        return value_in(request.environment, name);
    };
    out.tag.agreement = plan::agreement_address(request.environment, image, request.node, request.node_index);
    if (std::string note = missing_note(options, request); !note.empty()) tasks.note(note);
    plan::forget_agreement(request.environment);
    // One node's line is enough. srun has told of variables that are of no section.
    if (std::string note = plan::unknown_variables_note(plan::unknown_key_variables(request.environment));
        !note.empty() && request.node_index == 0)
        tasks.note(note);
    bool by_data_path = out.site.defaults.container_scope == plan::ContainerScope::data_path;
    if (std::string note = enroot::passed_over_in_step_note(request.environment, by_data_path);
        !note.empty() && request.node_index == 0)
        tasks.note(note);
    return out;
}

/// `event` is made for the step; a start is told of from here on.
void note_event(StepStart& start, std::optional<StartEvent>& event) {
    event.emplace(start.site, start.caller, cat(start.step.job, ".", start.step.step), start.step.node);
    event->of_image(start.wanted.image_text());
    start.watch.job = cat(start.step.job, ".", start.step.step);
    start.event = &*event;
    start.watch.fetched = [&event](const PullResult& result) { event->pulled(result); };
}

/// One task prints the error; all end with its code.
void serve_failure(StepTasks& tasks, const Error& error) {
    // Whatever served the container has gone with it.
    tasks.watch(-1);
    bool shown = false;
    auto answer = [&](const plan::TaskRequest&) -> StepTasks::Answer {
        return {plan::encode(plan::Failure{error.what(), error.exit_code(), std::exchange(shown, true)}), {}};
    };
    while (tasks.serve(answer)) {
    }
}

void serve_container(StepTasks& tasks, const plan::StepRequest& request, StepContainer& container, StartEvent& event) {
    bool shown = false;
    // What is wrong with one task's variables is told to it; the others may be fine.
    auto answer = [&](const plan::TaskRequest& task) -> StepTasks::Answer {
        try {
            return container.answer(task);
        } catch (const Error& error) {
            return {plan::encode(plan::Failure{error.what(), error.exit_code(), std::exchange(shown, true)}), {}};
        }
    };
    try {
        while (tasks.serve(answer)) {
            expect_all(tasks);
            // Only now, so that no task waits for it.
            if (tasks.entered() > 0) event.started();
        }
    } catch (const Error& error) {
        event.failed(plan::Cause::killed, error.what());
        // Those that run already are ended by slurmstepd, which says why; those that wait are told.
        tasks.say_last(error.what());
        container.end(false);
        serve_failure(tasks, error);
        return;
    }
    container.end(tasks.entered() >= request.tasks);
}

/// A step of a batch job inherits name and number of the batch script's node; slurmstepd corrects them in the tasks
/// alone.
void set_node(plan::StepRequest& request) {
    auto set = [&](const std::string& name, const std::string& value) {
        std::erase_if(request.environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
        request.environment.push_back(cat(name, "=", value));
    };
    set("SLURM_NODEID", cat(request.node_index));
    set("SLURMD_NODENAME", request.node);
}

std::string names_of(const plan::GivenOptions& options) {
    std::string out;
    for (const auto& [name, value] : options) out += cat(out.empty() ? "" : " ", name);
    return out.empty() ? "none" : out;
}

/// Where the user wants it, to the standard error of the step.
void start_log(StepTasks& tasks, const plan::StepRequest& request) {
    if (!debug::is_wanted(variable(request.environment, "BERTH_LOG"))) return;
    auto&& [here, there] = make_channel();
    tasks.show_log(std::move(here));
    debug::start("berth step", std::move(there));
    debug::log("step", "berth " BERTH_VERSION " for step ", request.job, '.', request.step, " on ", request.node,
               ": tasks ", request.tasks, ", options ", names_of(request.options));
}

void serve_request(StepTasks& tasks, plan::StepRequest& request) {
    // A pull that serves the image's layers to the step's other nodes, or proves them, ends with the step.
    std::optional<Child> pull_that_goes_on;
    std::unique_ptr<StepContainer> container;
    std::optional<StartEvent> event;
    std::optional<Error> failure;
    try {
        start_log(tasks, request);
        StepStart start = start_of(request, tasks);
        note_event(start, event);
        start.watch.keep = [&pull_that_goes_on](Child pull) { pull_that_goes_on.emplace(std::move(pull)); };
        container = start_step_container(std::move(start));
    } catch (const StepOver&) {
        if (event) event->failed(plan::Cause::killed, "starting the container: the step ended meanwhile");
        return;
    } catch (const Error& error) {
        failure = error;
        if (event) event->failed(error);
    } catch (const std::exception& error) {
        failure = Error(cat("starting the container: ", error.what()));
    }
    if (failure) debug::log("step", "the start has failed: ", failure->what());
    if (failure)
        serve_failure(tasks, *failure);
    else
        serve_container(tasks, request, *container, *event);
}

}  // namespace

void serve_step(Fd socket) {
    auto received = receive_message(socket.get());
    if (!received) return;
    StepTasks tasks(std::move(socket));
    plan::StepRequest request;
    try {
        request = plan::decode_step(received->message);
    } catch (const Error& error) {
        // While a node is upgraded its plugin and its program are of two releases for a moment.
        return serve_failure(tasks, error);
    }
    set_node(request);
    apply_step_settings(request.environment);
    serve_request(tasks, request);
}

}  // namespace berth
