#include "runtime/step/container.hh"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>

#include "hooks/devices.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/container/disk_upper.hh"
#include "runtime/container/entrypoint.hh"
#include "runtime/container/named/use.hh"
#include "runtime/container/plan_report.hh"
#include "runtime/container/start.hh"
#include "runtime/container/task_process.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/slurm_client.hh"
#include "runtime/images/enroot_image.hh"
#include "runtime/images/profile_record.hh"
#include "runtime/images/shell.hh"
#include "runtime/images/wait_teller.hh"
#include "runtime/plan/job_environment.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/step/address.hh"
#include "runtime/step/save.hh"
#include "runtime/step/scope.hh"

namespace berth {

namespace {

/// True for the folder of Slurm's PMIx server: of a name that Slurm gives, where root alone makes folders.
bool is_slurms(const std::string& path, const std::string& job_step) {
    size_t slash = path.rfind('/');
    struct stat st {};
    return plan::is_name_of_pmix_server(path.substr(slash + 1), job_step) &&
           ::stat(path.substr(0, slash).c_str(), &st) == 0 && st.st_uid == 0 && (st.st_mode & 022) == 0;
}

/// True for a file of the user's own; false for an empty path.
bool is_own_file(const std::string& path) {
    struct stat st {};
    return !path.empty() && ::lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == ::getuid();
}

/// What a step with a PMIx server shares with it is known to the tasks only, so the container waits for the first of
/// them.
std::vector<plan::JobPath> shared_folders(const StepStart& start) {
    if (!plan::has_pmix_server(start.step.environment)) return {};
    auto task = start.tasks.first_environment();
    if (!task) throw StepOver{};
    if (std::string note = plan::pmix_note(*task, start.wanted.remap_root.value_or(start.site.defaults.remap_root));
        !note.empty())
        start.tasks.note(note);
    std::string job_step = cat(start.step.job, '.', start.step.step);
    auto folders = plan::pmix_folders(*task, start.step.tmp_fs, start.step.uid, job_step);
    for (plan::JobPath& folder : folders)
        if (is_slurms(folder.path, job_step)) folder.origin = plan::Origin::of_site_in_shared_folder("slurm");
    return folders;
}

plan::Job job_of(const StepStart& start) {
    const plan::StepRequest& request = start.step;
    plan::Job job;
    job.id = cat(request.job, '.', request.step);
    job.node = request.node;
    job.shared_folders = shared_folders(start);
    // What srun --pty sets for the task that has the terminal.
    job.has_terminal = std::any_of(request.environment.begin(), request.environment.end(),
                                   [](const std::string& entry) { return entry.starts_with("SLURM_PTY_PORT="); });
    if (!request.batch_script.empty())
        job.bind_read_only.push_back({request.batch_script, plan::Origin::of_site("slurm")});
    if (std::string key = plan::display_key(request.environment, request.tmp_fs); is_own_file(key))
        job.bind_read_only.push_back({key, plan::Origin::of_site_in_shared_folder("slurm")});
    add_slurm_client(job, start.site, request.slurm);
    return job;
}

/// Where other steps reach the container of a step, JOB.STEP.
StepAddress address_of(const StepStart& start, const std::string& step) {
    return {run_directory(start.caller), start.step.node, step};
}

std::string own_step(const StepStart& start) {
    return cat(start.step.job, ".", start.step.step);
}

using Changes = std::vector<plan::EnvironmentChange>;

/// What an entrypoint gets: of the job's variables those of --container-env, and who and where the user is.
std::vector<std::string> entrypoint_environment(const StepStart& start) {
    std::vector<std::string> names = start.wanted.env, out;
    names.insert(names.end(), {"HOME", "USER", "LOGNAME"});
    for (const std::string& text : start.step.environment)
        if (std::find(names.begin(), names.end(), text.substr(0, text.find('='))) != names.end()) out.push_back(text);
    return out;
}

/// Runs the image's entrypoint, if there is one and it is asked for. `changes` are the container's to
/// entrypoint_environment(), without what --container-environment sets: that may name variables of the job.
Changes changes_of_entrypoint(const StepStart& start, const StartedContainer& container,
                              const std::vector<std::string>& words, const Changes& changes) {
    if (words.empty() || !start.wanted.entrypoint.value_or(start.site.defaults.entrypoint)) return {};
    start.event->stage(plan::Cause::entrypoint);
    const plan::Request& wanted = start.wanted;
    Changes all = plan::with_user_variables(changes, wanted.variables, wanted.env, start.step.environment);
    EntrypointRun run{container,
                      words,
                      changed_environment(entrypoint_environment(start), all),
                      {},
                      {},
                      start.watch.descriptor,
                      start.watch.ready};
    run.note = [&](const std::string& line) { start.tasks.note(line); };
    if (start.wanted.entrypoint_log)
        run.log = [&](const std::string& line) { start.tasks.note(cat("entrypoint: ", line)); };
    Changes out = run_entrypoint(run);
    start.event->lap("entrypoint");
    return out;
}

/// Whether each task makes a cgroup namespace: by defaults.unshare, where the container has not one already.
bool wants_own_cgroup(const plan::Site& site, const StartedContainer& container) {
    return std::ranges::find(site.defaults.unshare, "cgroup") != site.defaults.unshare.end() &&
           std::ranges::none_of(container.namespaces,
                                [](const OwnNamespace& own) { return own.type == CLONE_NEWCGROUP; });
}

/// Notes what the step reads of its image, where the site wants that and it can be kept.
std::optional<ProfileRecord> record_profile(const StepStart& start, OpenedImage& opened) {
    if (!start.site.share.record || start.site.mount.engine != plan::MountEngine::berth) return std::nullopt;
    store::Store store = open_store(start.site, start.caller);
    if (!ProfileRecord::is_possible(opened, store)) return std::nullopt;
    auto until = squash::ChunkLog::Clock::now() + std::chrono::seconds(start.site.share.record_time);
    return std::optional<ProfileRecord>(std::in_place, opened, std::move(store), start.wanted.image_text(), until);
}

/// Served by this process for the step alone; other steps may join it while it runs.
class OwnContainer : public StepContainer {
  public:
    explicit OwnContainer(StepStart& start) : tasks_(start.tasks), address_(address_of(start, own_step(start))) {
        start.event->stage(plan::Cause::image);
        // The pull ends with the step, as this container does.
        start.watch.early = true;
        OpenedImage opened = open_image(*start.wanted.image, start.caller, start.site, start.watch, start.tag);
        start.event->opened(text_of(opened.digest));
        start.event->noted(opened.note);
        std::shared_ptr<ChunkMap> map = opened.image.coming.map;
        if (map) start.event->early();
        start.event->admitted(opened.signer, opened.rule);
        start.event->lap("image");
        start.event->stage(plan::Cause::devices);
        std::vector<plan::ContainerEdits> devices = device_edits(
            opened.image, start.site, plan::with_device_variables(start.step.environment, start.wanted),
            [&](const std::string& line) { start.tasks.note(line); });
        add_image_fstab(devices, opened.image, start.step.environment,
                        [&](const std::string& line) { start.tasks.note(line); });
        start.event->stage(plan::Cause::plan);
        take_shell(start.caller, opened.image);
        plan::Job job = job_of(start);
        plan_ = plan_here(start.wanted, start.caller, job, start.site,
                          config_at_start(opened.image, start.step.environment), devices);
        if (opened.digest) plan_.environment.set.push_back(cat("BERTH_CONTAINER_DIGEST=", *opened.digest));
        if (wants_plan(start.step.environment))
            report_plan(plan_, text_of(opened.digest), [&](const std::string& line) { start.tasks.note(line); });
        if (const std::string& path = start.save_path; !path.empty())
            saver_.emplace(start, record_of(*start.wanted.image, opened, start.caller),
                           cat("of step ", start.step.job, ".", start.step.step), path);
        start.tasks.listen(address_.listen());
        start.event->lap("plan");
        start.event->stage(plan::Cause::container);
        profile_ = record_profile(start, opened);
        keep_on_disk(start, job);
        ContainerStorage storage = upper_.storage();
        storage.saved = saver_.has_value();
        container_ = start_container(plan_, std::move(opened.image), start.site, storage);
        // Not before: a process with several threads makes no user namespace.
        if (map)
            tell_waits_.emplace(std::move(map), std::chrono::seconds(start.site.limits.stall_time),
                                [&tasks = start.tasks](const std::string& line) { tasks.say(line); });
        own_cgroup_ = wants_own_cgroup(start.site, container_);
        start.event->laps(container_.phases);
        wanted_ = start.wanted;
        plan::EnvironmentRules rules = plan_.environment;
        rules.user.clear();
        entrypoint_ = changes_of_entrypoint(start, container_, plan_.entrypoint,
                                            plan::environment_changes(rules, entrypoint_environment(start)));
    }

    StepTasks::Answer answer(const plan::TaskRequest& task) override {
        plan::Ready ready = ready_of(plan_, container_, task);
        ready.own_cgroup = own_cgroup_;
        ready.environment = with_entrypoint(plan::environment_changes(plan_.environment, task.environment),
                                            entrypoint_, wanted_.env, task.environment);
        plan::set_working_directory(ready.environment, ready.workdir, wanted_);
        return {plan::encode(ready), namespaces_of(container_)};
    }

    void end(bool all_entered) override {
        tell_waits_.reset();
        end_container(container_);
        if (profile_) keep_profile();
        if (saver_) saver_->save(container_.upper.get(), all_entered);
        upper_.remove();
    }

  private:
    /// Only an order for later starts: a step does not fail for it.
    void keep_profile() try {
        profile_->keep();
    } catch (const Error& problem) {
        tasks_.say(cat("warning: keeping what the step has read of its image (share.record): ", problem.what()));
    }

    /// What the container writes, where the site wants it on disk.
    void keep_on_disk(const StepStart& start, const plan::Job& job) {
        std::string folder = plan_.writable ? upper_folder(start.site, start.caller, job) : "";
        if (folder.empty()) return;
        mark_job_of_upper(start.caller, start.step.job);
        upper_ = DiskUpper(folder, mark_of_upper(start.caller, cat(start.step.node, ".", job.id)));
    }

    StepTasks& tasks_;
    StepAddress address_;
    std::optional<WaitTeller> tell_waits_;
    std::optional<ProfileRecord> profile_;
    plan::Plan plan_;
    std::optional<StepSaver> saver_;
    DiskUpper upper_;
    StartedContainer container_;
    bool own_cgroup_ = false;
    plan::Request wanted_;
    Changes entrypoint_;
};

/// One with a name, or another step's, which somebody else serves: this process is a member of it.
class SharedContainer : public StepContainer {
  public:
    explicit SharedContainer(StepStart& start) : start_(std::move(start)) {
        ContainerStart wanted{*start_.wanted.name, start_.wanted, false,       start_.caller,
                              job_of(start_),      start_.site,   start_.watch};
        wanted.watch.progress = [this](const std::string& line) { start_.tasks.note(line); };
        // Its helper goes on with the pull when this step has ended.
        wanted.watch.early = true;
        wanted.inherit = false;
        wanted.tag = start_.tag;
        wanted.of_srun = true;
        wanted.compares_devices = true;
        wanted.forked = [this] { start_.tasks.close(); };
        wanted.lap = [this](const char* phase) { start_.event->lap(phase); };
        start_.event->stage(plan::Cause::container);
        bool of_step = join_step(wanted);
        if (!of_step) use(wanted);
        // Not before: a helper that this process forks has yet to write its id maps.
        sandbox::become_private();
        check_processes();
        if (!of_step) start_.event->opened(used_.record.digest);
        bool joined = of_step || used_.action == plan::NameAction::join;
        if (joined && wants_plan(start_.step.environment))
            start_.tasks.note(cat("container ", name(), ": it runs already, as its first step planned it"));
        start_.event->in_container(name(), joined, used_.joined.container.phases);
        if (used_.map) tell_waits();
        start_.tasks.watch(used_.connection.get());
        run_entrypoint();
        listen();
    }

    StepTasks::Answer answer(const plan::TaskRequest& task) override {
        const std::vector<std::string>& environment = task.environment;
        auto joined = ask_to_join(used_.connection.get(), task);
        if (!joined)
            return {plan::encode(plan::Failure{
                        cat("container ", name(), ": it has ended: it was removed by force, or its helper was killed"),
                        exit_failure, false}),
                    {}};
        const StartedContainer& container = used_.joined.container;
        Changes changes = own_changes(std::move(joined->environment), environment);
        plan::Ready ready{container.workdir,
                          with_entrypoint(std::move(changes), entrypoint_, start_.wanted.env, environment),
                          container.seccomp_program};
        plan::set_working_directory(ready.environment, ready.workdir, start_.wanted);
        for (const OwnNamespace& own : container.namespaces)
            ready.namespaces.push_back(static_cast<uint32_t>(own.type));
        ready.own_cgroup = wants_own_cgroup(start_.site, container);
        ready.remap_root = joined->remap_root;
        ready.writable = joined->writable;
        ready.entrypoint = std::move(joined->entrypoint);
        ready.capabilities = container.capabilities;
        ready.devices = std::move(joined->devices);
        ready.found = std::move(joined->found);
        return {plan::encode(ready), namespaces_of(container)};
    }

    void end(bool all_entered) override {
        tell_waits_.reset();
        if (!folder_) return leave(std::move(used_.connection));
        const std::string& path = start_.save_path;
        if (path.empty())
            leave(std::move(used_.connection));
        else
            leave_and_save(path, all_entered);
        sweep_jobs(start_.site, start_.caller);
    }

  private:
    const std::string& name() const { return start_.wanted.name->name; }

    /// Without a folder of the user's in /run there is the container's name alone.
    void listen() {
        if (::access(run_directory(start_.caller).c_str(), F_OK) != 0 && errno == ENOENT) return;
        address_.emplace(run_directory(start_.caller), start_.step.node, own_step(start_));
        start_.tasks.listen(address_->listen());
    }

    /// Nobody removes the container between its end and the save.
    void leave_and_save(const std::string& path, bool all_entered) {
        Lock hold = folder_->hold(name());
        leave(std::move(used_.connection));
        StepSaver(start_, used_.record, name(), path).save(folder_->upper(name()).get(), all_entered);
    }

    /// A container that has no name is called by its step, while that runs.
    bool join_step(const ContainerStart& wanted) {
        if (!plan::is_step_name(name()) || wanted.wanted.mode == plan::NameMode::create) return false;
        used_.connection = address_of(start_, name()).connect();
        auto joined = used_.connection ? join_running(wanted, used_.connection.get(), device_environment())
                                       : std::nullopt;
        if (!joined) return false;
        if (!start_.wanted.save.empty())
            throw Error(
                cat("--container-save: the container ", name(), " belongs to another step, which alone can save it"));
        used_.joined = std::move(*joined);
        return true;
    }

    /// A task is in slurmstepd's pid namespace for its life; setns(2) changes that of its children alone.
    void check_processes() const {
        for (const OwnNamespace& own : used_.joined.container.namespaces)
            if (own.type == CLONE_NEWPID)
                throw Error(cat("joining container ", name(),
                                ": it has a PID namespace of its own (berth run --pid), which a task of Slurm cannot "
                                "enter; end it, and start it without --pid"));
    }

    void use(ContainerStart wanted) {
        if (const std::string& path = start_.save_path; !path.empty()) check_save_folder(path);
        const std::vector<std::string>& environment = start_.step.environment;
        std::string data_path =
            enroot::absolute_data_path(value_in(environment, "ENROOT_DATA_PATH"), start_.caller.cwd);
        folder_ = open_container_folder(start_.site, start_.caller,
                                        scope_of_steps(start_.site, start_.step.job, data_path));
        bool of_job = start_.site.defaults.container_scope == plan::ContainerScope::job;
        if (of_job) mark_job(start_.caller, start_.step.job, folder_->path());
        wanted.data_path = data_path_to_note(data_path, *folder_, start_.caller, environment, true);
        used_ = use_container(*folder_, wanted, device_environment());
    }

    std::vector<std::string> device_environment() const {
        return plan::with_device_variables(start_.step.environment, start_.wanted);
    }

    void tell_waits() {
        start_.event->early();
        tell_waits_.emplace(used_.map, std::chrono::seconds(start_.site.limits.stall_time),
                            [this](const std::string& line) { start_.tasks.say(line); });
    }

    /// Of the step, not of the container: each step that asks for it runs it.
    void run_entrypoint() {
        StartedContainer& container = used_.joined.container;
        if (start_.wanted.workdir) container.workdir = *start_.wanted.workdir;
        if (!start_.wanted.entrypoint.value_or(start_.site.defaults.entrypoint)) return;
        std::vector<std::string> environment = entrypoint_environment(start_);
        auto joined = ask_to_join(used_.connection.get(), environment);
        if (!joined) throw Error(cat("container ", name(), ": it ended before the image's entrypoint could run"));
        entrypoint_ = changes_of_entrypoint(start_, container, used_.joined.entrypoint,
                                            changes_but(start_.wanted.env, joined->environment, environment));
    }

    /// The container's changes to `environment` as this step wants them.
    Changes own_changes(Changes of_container, const std::vector<std::string>& environment) const {
        const plan::Request& wanted = start_.wanted;
        return plan::with_user_variables(changes_but(wanted.env, std::move(of_container), environment),
                                         wanted.variables, wanted.env, environment);
    }

    StepStart start_;
    std::optional<StepAddress> address_;  ///< for those who know the step and not the container's name
    std::optional<ContainerFolder> folder_;
    UsedContainer used_;
    std::optional<WaitTeller> tell_waits_;
    Changes entrypoint_;
};

}  // namespace

std::unique_ptr<StepContainer> start_step_container(StepStart start) {
    const std::vector<std::string>& site = start.site.defaults.unshare;
    if (std::find(site.begin(), site.end(), "pid") != site.end())
        start.tasks.note(
            "defaults.unshare: pid is for berth run only: the tasks of a step are processes of slurmstepd's PID "
            "namespace; the site can write ipc alone");
    if (start.wanted.name) return std::make_unique<SharedContainer>(start);
    return std::make_unique<OwnContainer>(start);
}

}  // namespace berth
