#include "runtime/cli/run_named.hh"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/error.hh"
#include "runtime/base/inherited.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/start_report.hh"
#include "runtime/container/named/use.hh"
#include "runtime/container/task_process.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/wait_teller.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

namespace {

std::vector<std::string> command_in(const RunOptions& options, const UsedContainer& used) {
    bool entrypoint = options.request.entrypoint.value_or(false);
    if (!options.command.empty() && !entrypoint) return wrapped(options.command, options);
    if (used.action == plan::NameAction::join && options.fallback.empty())
        throw Error(cat("container ", options.request.name->name, ": it runs already; write the command to run in it",
                        options.command.empty() ? "" : " without --entrypoint"),
                    exit_not_found);
    if (options.command.empty()) return wrapped(used.command, options);
    std::vector<std::string> out = used.joined.entrypoint;
    out.insert(out.end(), options.command.begin(), options.command.end());
    return wrapped(std::move(out), options);
}

ContainerFolder folder_for(const RunOptions& options, const plan::Site& site, const plan::Caller& caller) {
    std::string scope = options.job == 0 ? "global" : job_scope(options.job);
    if (!options.scope.empty()) scope = options.scope;
    return options.folder.empty() ? open_container_folder(site, caller, scope)
                                  : ContainerFolder::open(options.folder, scope);
}

void note_use(StartEvent& event, const ContainerStart& start, const UsedContainer& used) {
    event.opened(used.record.digest);
    event.in_container(start.wanted.name, used.action == plan::NameAction::join, used.joined.container.phases);
    if (used.map) event.early();
}

int run_in_named(const RunOptions& options, const plan::Site& site, const plan::Caller& caller,
                 const InheritedDescriptors& inherited, StartEvent& event) {
    event.stage(plan::Cause::container);
    ContainerFolder folder = folder_for(options, site, caller);
    ContainerStart start{.wanted = *options.request.name,
                         .request = options.request,
                         .again = !options.request.image,
                         .caller = caller,
                         .site = site,
                         .watch = {.progress = show_note},
                         .inherit = options.scope.empty()};
    // What this command wants for itself is no property of the container.
    start.request.env.clear();
    start.watch.fetched = [&](const PullResult& result) { event.pulled(result); };
    start.forked = [&] { inherited.close(); };
    start.lap = [&](const char* phase) { event.lap(phase); };
    std::vector<std::string> environment = environment_for(options);
    sigset_t watched = forwarded_signals();
    // The container's helper goes on with it when this program has ended.
    std::optional<Child> pull;
    start.watch.early = site.store.start == plan::StartPolicy::early;
    if (start.watch.early) start.watch.keep = [&](Child child) { pull.emplace(std::move(child)); };
    UsedContainer used = use_container(folder, start, environment);
    note_use(event, start, used);
    std::vector<std::string> command = command_in(options, used);
    if (options.request.workdir) used.joined.container.workdir = *options.request.workdir;
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    const plan::Request& request = options.request;
    auto changes = plan::with_user_variables(changes_but(request.env, used.joined.environment, environment),
                                             request.variables, request.env, environment);
    plan::set_working_directory(changes, used.joined.container.workdir, request);
    std::optional<WaitTeller> tell_waits;
    if (used.map) tell_waits.emplace(used.map, std::chrono::seconds(site.limits.stall_time), show_note);
    Task task =
        start_task(used.joined.container, command, changed_environment(environment, changes), options.terminal);
    event.started();
    int code = attend_task(task, watched, used.connection.get());
    task.terminal.reset();
    tell_waits.reset();
    event.lap("command");
    leave(std::move(used.connection));
    event.lap("end");
    if (options.request.save.empty()) return code;
    Fd upper = folder.upper(start.wanted.name);
    std::string store = used.record.digest.empty() ? "" : open_store(site, caller).location();
    Saver saver({used.record, start.wanted.name, store, site.mount.modes}, options.request.save);
    return save_after(saver, upper.get(), code, options.request.save);
}

}  // namespace

ContainerFolder containers_of_caller(uint32_t job) {
    return open_container_folder(site_of_caller(), caller_of_this_process(), job == 0 ? "global" : job_scope(job));
}

void show_note(const std::string& line) { std::fprintf(stderr, "berth: %s\n", line.c_str()); }

int save_after(Saver& saver, int upper, int code, const std::string& output) {
    if (code != 0) {
        show_note(cat("not saved as ", printable(output, 4096), ": the command ended with ", code));
        return code;
    }
    saver.begin(upper);
    return saver.wait() ? 0 : exit_failure;
}

std::string pmi_descriptor() {
    const char* number = std::getenv("PMI_FD");
    return number ? number : "";
}

int run_named(const RunOptions& options) {
    InheritedDescriptors inherited(pmi_descriptor());
    return start_report(options, [&](const plan::Site& site, plan::Caller& caller, StartEvent& event) {
        return run_in_named(options, site, caller, inherited, event);
    });
}

}  // namespace berth::cli
