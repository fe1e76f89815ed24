// `berth run`: a container outside Slurm. This process becomes the container's server; its one child is the command.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "hooks/devices.hh"
#include "runtime/base/error.hh"
#include "runtime/base/inherited.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/open_for_person.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/cli/run_new.hh"
#include "runtime/cli/run_options.hh"
#include "runtime/cli/start_report.hh"
#include "runtime/container/disk_upper.hh"
#include "runtime/container/named/joint.hh"
#include "runtime/container/named/save.hh"
#include "runtime/container/plan_report.hh"
#include "runtime/container/start.hh"
#include "runtime/container/task_process.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/images/enroot_image.hh"
#include "runtime/images/image_files.hh"
#include "runtime/images/profile_record.hh"
#include "runtime/images/shell.hh"
#include "runtime/images/wait_teller.hh"
#include "runtime/plan/plan.hh"
#include "runtime/plan/policy.hh"

namespace berth::cli {

namespace {

/// The command's environment: this process's with --env, then the plan's rules.
std::vector<std::string> task_environment(const plan::Plan& plan, const RunOptions& options) {
    std::vector<std::string> environment = environment_for(options);
    bool in_slurm = is_in_job(environment);
    keep_what_reaches(environment, options);
    std::vector<plan::EnvironmentChange> of_plan = plan::environment_changes(plan.environment, environment);
    plan::set_working_directory(of_plan, plan.workdir, options.request);
    environment = changed_environment(environment, of_plan);
    return in_slurm ? with_visible_devices(environment, plan.devices) : environment;
}

/// What lies over the image's files is of the node, as the sources of mounts are.
void take_overlays(plan::Plan& plan, const RunOptions& options, const plan::Site& site) {
    std::vector<plan::Edit> edits = options.layers;
    if (!options.overlay.empty()) {
        plan::Mount mount;
        mount.source = options.overlay;
        mount.target = "/";
        edits.push_back({mount, "option --overlay", "what the container writes"});
    }
    plan::judge_sources(site, edits, real_paths(plan::policy_paths(site, edits)));
    plan.edits.insert(plan.edits.begin(), options.layers.begin(), options.layers.end());
}

/// What the front end for Apptainer's users says about a start, besides its request.
void take_apptainers(plan::Plan& plan, const RunOptions& options, const plan::Site& site) {
    if (options.keeps_locale) plan.environment.remove.clear();
    if (options.workdir_may_miss) plan.workdir_required = false;
    plan.hostname = options.hostname;
    plan.edits.insert(plan.edits.end(), options.edits.begin(), options.edits.end());
    std::erase_if(plan.edits, [&](const plan::Edit& edit) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        return mount != nullptr && mount->source == mount->target &&
               std::ranges::find(options.left_out, mount->target) != options.left_out.end();
    });
    take_overlays(plan, options, site);
}

/// A command whose image has scripts that set variables reads them first, where that is asked for.
/// So does one whose variables a shell is to make.
void read_scripts(plan::Plan& plan, const OpenedImage& opened, const RunOptions& options) {
    bool has_scripts = opened.image.index.config().unread_lines > 0;
    if (options.script_reader.empty() || !(has_scripts || options.needs_script_reader)) return;
    plan.command.insert(plan.command.begin(), options.script_reader.begin(), options.script_reader.end());
    // The shell puts them in, once it has read what they refer to.
    plan.environment.user.clear();
}

ContainerStorage storage_for(const RunOptions& options, const DiskUpper& upper) {
    ContainerStorage out = upper.storage();
    if (!options.overlay.empty()) {
        out.path = options.overlay;
        out.setting = "--overlay";
    }
    out.in_place = options.in_place;
    return out;
}

/// What will save the container when the command has ended well; none when that is not asked for.
std::unique_ptr<Saver> make_saver(const RunOptions& options, const OpenedImage& opened, const plan::Caller& caller,
                                  const plan::Site& site) {
    if (options.request.save.empty()) return nullptr;
    plan::ContainerRecord record = record_of(*options.request.image, opened, caller);
    std::string store = opened.digest ? open_store(site, caller).location() : "", name = "of " + record.image;
    return std::make_unique<Saver>(SavedContainer{record, name, store, site.mount.modes},
                                   options.request.save);
}

/// Returns the command's exit code.
int run_command(StartedContainer& container, const plan::Plan& plan, const RunOptions& options,
                const sigset_t& watched, StartEvent& event) {
    try {
        Task command = start_task(container, plan.command, task_environment(plan, options), options.terminal,
                                  options.complain);
        event.started();
        return attend_task(command, watched);
    } catch (const Error&) {
        end_container(container);
        throw;
    }
}

struct JointRun {
    const RunOptions& options;
    const plan::Plan& plan;
    const plan::Site& site;
    const plan::Caller& caller;  ///< with the home that he has on the node
    const InheritedDescriptors& inherited;
};

/// The container that this start shares with equal ones of its step; none where it is to have its own after all.
std::optional<JointContainer> join(const JointRun& run, ContainerImage& image,
                                   const std::function<void(const std::string&)>& tell) try {
    const RunOptions& options = run.options;
    bool on_disk = run.plan.writable && options.overlay.empty() && !options.in_place;
    JointStart start{.step = options.step,
                     .plan = run.plan,
                     .storage = storage_for(options, DiskUpper()),
                     .upper_folder = on_disk ? upper_folder(run.site, run.caller, {}) : "",
                     .site = run.site,
                     .caller = run.caller,
                     .forked = [&run] { run.inherited.close(); }};
    return use_joint_container(start, image);
} catch (const WontJoin& reason) {
    tell(cat("warning: this process has a container of its own, apart from others of its step: ", reason.what()));
    return std::nullopt;
}

/// Runs the command in it; the exit code.
int run_in_joint(JointContainer& joint, const JointRun& run, StartEvent& event) {
    const RunOptions& options = run.options;
    joint.started ? event.laps(joint.joined.container.phases, "helper") : event.lap("join");
    sigset_t watched = forwarded_signals();
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    Task command = start_task(joint.joined.container, run.plan.command, task_environment(run.plan, options),
                              options.terminal, options.complain);
    event.started();
    int code = attend_task(command, watched, joint.connection.get());
    event.lap("command");
    leave(std::move(joint.connection));
    event.lap("end");
    return code;
}

std::vector<std::string> command_for(const RunOptions& options, const OpenedImage& opened,
                                     const plan::ImageConfig& config) {
    if (options.start_script.empty()) return command_of(options, config);
    std::vector<std::string> out;
    if (!ImageFiles(opened.image).text(options.start_script).empty()) {
        out = options.command;
        out.insert(out.begin(), options.start_script);
    }
    return out;
}

/// Starts the instance in the background.
int begin_instance(const JointRun& run, OpenedImage& opened, const plan::ImageConfig& config, StartEvent& event) {
    const RunOptions& options = run.options;
    InstanceStart start{.record = *options.instance,
                        .plan = run.plan,
                        .command = run.plan.command,
                        .environment = task_environment(run.plan, options),
                        .place = {},
                        .site = run.site};
    start.record.entrypoint = config.entrypoint;
    start.record.cmd = config.cmd;
    start.record.has_scripts = config.unread_lines > 0;
    bool on_disk = run.plan.writable && options.overlay.empty() && !options.in_place;
    start.place = {storage_for(options, DiskUpper()), on_disk ? upper_folder(run.site, run.caller, {}) : ""};
    start.forked = [&run] { run.inherited.close(); };
    ContainerFolder folder = open_container_folder(run.site, run.caller, instance_scope);
    *options.instance = start_instance(folder, std::move(start), std::move(opened.image));
    event.started();
    return 0;
}

/// The table of contents of a run.
int run_in_new(const RunOptions& options, const plan::Site& site, plan::Caller& caller,
               const InheritedDescriptors& inherited, StartEvent& event) {
    event.stage(plan::Cause::image);
    std::optional<Child> pull;
    // Who shares a container waits for the whole image: none of them has the pull.
    bool waits = !options.step.empty() || options.instance != nullptr;
    OpenedImage opened = open_for_person(options, caller, site, &event, waits ? nullptr : &pull);
    event.opened(text_of(opened.digest));
    event.noted(opened.note);
    std::shared_ptr<ChunkMap> map = opened.image.coming.map;
    if (map) event.early();
    event.admitted(opened.signer, opened.rule);
    event.lap("image");
    event.stage(plan::Cause::plan);
    auto tell = options.tell ? options.tell : show_note;
    if (uint32_t lines = opened.image.index.config().unread_lines;
        lines > 0 && options.verbose && options.script_reader.empty())
        tell(cat("lines of /.singularity.d/env in the image that are left out, since they do more than set a variable "
                 "to a value: ",
                 lines));
    if (options.in_place && opened.image.directory.empty())
        throw Error(cat("--writable: ", printable(options.request.image_text(), 4096),
                        " is no directory; write --writable-tmpfs, or --overlay FOLDER to keep what is written"));
    const plan::Caller on_node = caller;
    take_shell(caller, opened.image);
    if (!options.home.empty()) caller.home = options.home;
    plan::ImageConfig config = config_at_start(opened.image, environment_for(options));
    std::vector<plan::ContainerEdits> devices =
        device_edits(opened.image, site, environment_for(options), tell);
    add_image_fstab(devices, opened.image, environment_for(options), tell);
    plan::Plan decided = plan_here(options.request, caller, {}, site, config, devices);
    take_apptainers(decided, options, site);
    decided.command = command_for(options, opened, config);
    if (!decided.command.empty()) read_scripts(decided, opened, options);
    if (wants_plan(environment_for(options))) report_plan(decided, text_of(opened.digest), tell);
    event.lap("plan");
    event.stage(plan::Cause::container);
    if (options.instance != nullptr)
        return begin_instance({options, decided, site, on_node, inherited}, opened, config, event);
    if (!options.step.empty()) {
        JointRun joint{options, decided, site, on_node, inherited};
        if (auto container = join(joint, opened.image, tell)) {
            // The helper has it; its index is of some megabytes.
            { ContainerImage gone = std::move(opened.image); }
            return run_in_joint(*container, joint, event);
        }
    }

    sigset_t watched = forwarded_signals();
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    std::optional<ProfileRecord> record;
    if (options.record) record.emplace(opened, open_store(site, caller), options.request.image_text());
    std::unique_ptr<Saver> saver = make_saver(options, opened, caller, site);
    bool on_disk = decided.writable && options.overlay.empty() && !options.in_place;
    DiskUpper upper(on_disk ? upper_folder(site, caller, {}) : "");
    ContainerStorage storage = storage_for(options, upper);
    storage.saved = saver != nullptr;
    StartedContainer container = start_container(decided, std::move(opened.image), site, storage);
    std::optional<WaitTeller> tell_waits;
    if (map) tell_waits.emplace(std::move(map), std::chrono::seconds(site.limits.stall_time), tell);
    event.laps(container.phases);
    adopt_orphans(container);
    int code = run_command(container, decided, options, watched, event);
    tell_waits.reset();
    event.lap("command");
    end_container(container);
    event.lap("end");
    if (record) {
        record->keep();
        tell(record->text());
    }
    if (saver) code = save_after(*saver, container.upper.get(), code, options.request.save);
    upper.remove();
    return code;
}

}  // namespace

int run(int argc, char** argv) {
    RunOptions options;
    int code = 0;
    if (!parse_run_options("run", argc, argv, options, code)) return code;
    return options.request.name ? run_named(options) : run_new(options);
}

int run_new(const RunOptions& options) {
    InheritedDescriptors inherited(pmi_descriptor());
    return start_report(options, [&](const plan::Site& site, plan::Caller& caller, StartEvent& event) {
        if (options.terminal) caller.terminal.clear();
        return run_in_new(options, site, caller, inherited, event);
    });
}

}  // namespace berth::cli
