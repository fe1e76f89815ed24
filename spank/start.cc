#include "spank/start.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <memory>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/messages.hh"
#include "runtime/request/carried.hh"
#include "runtime/request/definition.hh"
#include "spank/carried.hh"
#include "runtime/request/frozen.hh"
#include "spank/cgroup.hh"
#include "spank/follow.hh"
#include "spank/helper.hh"
#include "spank/inhabitants.hh"
#include "spank/job_end.hh"
#include "spank/job_leaves.hh"
#include "spank/job_mounts.hh"
#include "spank/job_steps.hh"
#include "spank/owned_directory.hh"
#include "spank/run_directory.hh"
#include "spank/step.hh"
#include "spank/user_folders.hh"

namespace berth::spank {

namespace {

constexpr int request_timeout_ms = 10'000;
constexpr int left_timeout_ms = 2'000;
/// For a save that Slurm's signals could not be watched for: one that was ended would hold the node.
constexpr int unwatched_save_ms = 600'000;

template <typename Value>
Value item(spank_t spank, spank_item_t which) {
    Value value{};
    if (spank_get_item(spank, which, &value) != ESPANK_SUCCESS)
        throw Error(
            "asking Slurm about the step: no answer; install the spank_berth.so that was built for this release of "
            "Slurm");
    return value;
}

/// The value is the helper's business: only that there is one matters here, and whether it is the empty one.
enum class Variable { missing, empty, full };
Variable look_for(spank_t spank, const std::string& name) {
    char start[2] = {};
    spank_err_t answer = spank_getenv(spank, name.c_str(), start, sizeof start);
    if (answer == ESPANK_NOSPACE || (answer == ESPANK_SUCCESS && start[0] != '\0')) return Variable::full;
    return answer == ESPANK_SUCCESS ? Variable::empty : Variable::missing;
}
bool has_variable(spank_t spank, const std::string& name) { return look_for(spank, name) == Variable::full; }

/// By option or by variable: "image" for --container-image, BERTH_CONTAINER_IMAGE and PYXIS_CONTAINER_IMAGE. The
/// options of a batch script come by the job's environment where Slurm did not bring them: the helper reads them there
/// (plan::add_carried_options). An option without a value asks for none.
bool asks_for(spank_t spank, const std::string& option, const std::string& variable) {
    std::string name = "container-" + option;
    if (const std::string* value = plan::given(step().options, name)) return !value->empty();
    if (step().is_script && step().config.sbatch_support)
        if (Variable carried = look_for(spank, plan::carried_option(name)); carried != Variable::missing)
            return carried == Variable::full;
    return has_variable(spank, "BERTH_CONTAINER_" + variable) || has_variable(spank, "PYXIS_CONTAINER_" + variable);
}

template <typename Action>
void hold_errors(Action action) {
    try {
        if (!step().held_error) action();
    } catch (const Error& error) {
        step().held_error = error;
    } catch (const std::exception& error) {
        step().held_error = Error(error.what());
    }
}

HelperIdentity identity_of(spank_t spank) {
    HelperIdentity out{item<uid_t>(spank, S_JOB_UID), item<gid_t>(spank, S_JOB_GID), {}};
    gid_t* groups = nullptr;
    int count = 0;
    if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) == ESPANK_SUCCESS && groups != nullptr)
        out.groups.assign(groups, groups + count);
    return out;
}

std::string step_name(uint32_t id) {
    if (id == SLURM_BATCH_SCRIPT) return "batch";
    if (id == SLURM_INTERACTIVE_STEP) return "interactive";
    return std::to_string(id);
}

/// slurmstepd's working directory is the job's by now; that of a process that has entered the job's mounts is not.
std::string working_directory() {
    auto out = std::make_shared<std::string>(4096, '\0');
    step().own.run([out] {
        if (getcwd(out->data(), out->size()) == nullptr) *out = "/";
    });
    return out->c_str();
}

/// Where Slurm makes temporary folders on this node, with what stands for the node's names in it.
std::string tmp_fs(spank_t spank) {
    const slurm_conf_t* known = settings(spank);
    std::string out = known != nullptr && known->tmp_fs != nullptr ? known->tmp_fs : "/tmp";
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for (const auto& [pattern, name] :
         {std::pair<std::string, std::string>("%n", node_name()), std::pair<std::string, std::string>("%h", host)})
        if (size_t at = out.find(pattern); at != std::string::npos) out.replace(at, pattern.size(), name);
    return out;
}

/// PREFIX of PREFIX/sbin/slurmstepd, the program of this process; empty for a slurmstepd in another place.
std::string slurm_prefix() {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    std::string_view program(path, length > 0 ? static_cast<size_t>(length) : 0);
    constexpr std::string_view place = "/sbin/slurmstepd";
    return program.ends_with(place) ? std::string(program.substr(0, program.size() - place.size())) : "";
}

plan::StepRequest request_of(spank_t spank, const HelperIdentity& identity) {
    plan::StepRequest out;
    out.options = step().options;
    out.settings = step().config.settings;
    out.job = item<uint32_t>(spank, S_JOB_ID);
    uint32_t id = item<uint32_t>(spank, S_JOB_STEPID);
    out.step = step_name(id);
    out.node = node_name();
    out.uid = identity.uid;
    out.gid = identity.gid;
    out.cwd = working_directory();
    out.tasks = item<uint32_t>(spank, S_JOB_LOCAL_TASK_COUNT);
    out.node_index = item<uint32_t>(spank, S_JOB_NODEID);
    out.tmp_fs = tmp_fs(spank);
    out.slurm = slurm_prefix();
    int count = 0;
    char** arguments = nullptr;
    if (id == SLURM_BATCH_SCRIPT && spank_get_item(spank, S_JOB_ARGV, &count, &arguments) == ESPANK_SUCCESS &&
        count > 0)
        out.batch_script = arguments[0];
    for (char** entry = item<char**>(spank, S_JOB_ENV); entry != nullptr && *entry != nullptr; ++entry)
        out.environment.emplace_back(*entry);
    return out;
}

void report_death() {
    slurm_spank_log("berth: the container's file server on %s died; ending the step", node_name().c_str());
}

/// Tasks often end with it, when a page of their program has to be read again: that would look like their own fault.
bool tell_lack_of_memory() {
    if (step().memory_kills.count() == 0) return false;
    slurm_spank_log("berth: the container's file server on %s was killed: the step has no memory left; ending the "
                    "step; ask for more by --mem",
                    node_name().c_str());
    return true;
}

void let_helper_go() {
    step().watch.stop();
    step().socket.reset();
    if (step().helper) step().ending.begin(step().helper.get(), step().leaf_is_jobs ? nullptr : &step().leaf);
}

void show(const std::string& line) {
    slurm_spank_log("berth: %s: %s", node_name().c_str(), line.c_str());
}

/// A helper that says what berth's does not is somebody else's program by now.
void end_helper(const std::exception& error) {
    kill_helper(step().helper.get());
    slurm_spank_log("berth: %s: %s; the container's helper was killed", node_name().c_str(), error.what());
}

/// What the helper says while tasks run: that reads wait for what has still to come of the image, or why it ends the
/// container. False when there will be no more of it.
bool hear_helper() {
    try {
        for (;;) switch (step().lines.read(step().socket.get())) {
                case HelperLines::Status::nothing:
                    return true;
                case HelperLines::Status::closed:
                    return false;
                case HelperLines::Status::message:
                    step().heard = std::chrono::steady_clock::now();
                    show(step().lines.take());
                    if (step().lines.last()) step().watch.end_tasks();
            }
    } catch (const std::exception& error) {
        end_helper(error);
        return false;
    }
}

/// Lets the helper save the container. srun hears of the last task's end only after this.
void wait_for_save() {
    shutdown(step().socket.get(), SHUT_WR);
    try {
        step().sentinel.start();
        int limit_ms = step().sentinel.sees_signals() ? -1 : unwatched_save_ms;
        switch (follow_save(step().socket.get(), step().sentinel.descriptor(), limit_ms, show)) {
            case SaveEnd::done:
                break;
            case SaveEnd::cancelled:
                slurm_spank_log("berth: %s: the step was cancelled while its container was saved: it is not saved",
                                node_name().c_str());
                break;
            case SaveEnd::over_time:
                slurm_spank_log(
                    "berth: %s: saving the container took over %d s, and Slurm's signals could not be watched for: it "
                    "is not saved",
                    node_name().c_str(), unwatched_save_ms / 1000);
        }
    } catch (const SysError& error) {
        slurm_spank_log("berth: %s: waiting for the container to be saved: %s", node_name().c_str(), error.what());
    } catch (const std::exception& error) {
        end_helper(error);
    }
    // What step() returns is never destroyed.
    step().sentinel.end();
    step().socket.reset();
}

constexpr int last_word_ms = 300;

/// What the helper said when it ended the container itself, because its files were gone. Never waits for it.
void show_last_line() {
    hear_helper();
    // Over another connection srun hears of a task that was killed, and listens no more.
    constexpr std::chrono::milliseconds last_word(last_word_ms);
    if (std::chrono::steady_clock::now() - step().heard < last_word) poll(nullptr, 0, last_word_ms);
}

JobOnNode job_of(spank_t spank) {
    return {item<uid_t>(spank, S_JOB_UID), item<uint32_t>(spank, S_JOB_ID), node_name(), step().is_script};
}

void make_folders() {
    enter_run_directory(step().job, step().group, step().config.run);
    if (!step().config.user_folders.empty())
        make_user_folders(step().config.user_folders, step().job.uid, step().group);
}

/// Where Slurm has made mounts for the job, its own /tmp for one, the helper is to see them as the tasks do.
void find_job_mounts(spank_t spank) {
    if (!may_have_job_mounts(spank)) return;
    try {
        step().job_mounts = open_job_mounts(item<uint32_t>(spank, S_JOB_ID));
        if (step().job_mounts) show_run_directory(step().job_mounts.get(), item<uid_t>(spank, S_JOB_UID));
    } catch (const Error& error) {
        step().job_mounts.reset();
        slurm_info("berth: containers see the node's /tmp and /dev/shm, not the job's: %s", error.what());
    }
}

/// Readies what a step with a container needs of slurmstepd.
void prepare_container(spank_t spank) {
    if (settings(spank) == nullptr)
        slurm_info("berth: this spank_berth.so was built for Slurm %s and runs in Slurm %s: TaskProlog, TmpFS and "
                   "SrunPortRange are not looked at; install the one that was built for this release",
                   built_for().c_str(), runs_in(spank).c_str());
    if (may_be_contained(spank)) step().own.serve();
    if (!step().has_epilog) {
        end_left_jobs();
        step().hold = enter_job(job_steps_folder, step().job);
    }
    make_folders();
    find_job_mounts(spank);
    step().address =
        cat(step().job.node, ".", step().job.job, ".", step_name(item<uint32_t>(spank, S_JOB_STEPID)));
}

/// A step that runs on the node, and perhaps should not.
void judge_without_container(spank_t spank) {
    uint32_t id = item<uint32_t>(spank, S_JOB_STEPID);
    if (step().is_script) {
        step().lost_container = step().config.sbatch_support && submission_asked(spank);
        return;
    }
    bool on_purpose = !step().options.empty() || has_variable(spank, plan::enters_variable);
    step().is_beside_script = id != SLURM_EXTERN_CONT && id != SLURM_INTERACTIVE_STEP && !on_purpose &&
                              script_is_contained(job_of(spank));
}

/// What a task does not wait for: that its process is known to the watch.
void watch_process(pid_t task) {
    if (step().saves) step().sentinel.learn_from(task);
    step().memory_kills.open(step().leaf.folder());
    step().watch.listen(step().socket.get(), hear_helper);
    step().watch.add_task(task, step().helper.get(), report_death);
}

void end_container() {
    // From here on the socket is this thread's.
    step().watch.stop();
    if (step().saves && step().socket) wait_for_save();
    if (step().socket) show_last_line();
    let_helper_go();
}

/// What a helper that was killed has left on disk (mount.upper), by the step's user. What takes longer is left to the
/// job's end and to the next start.
void remove_left_files() {
    if (step().address.empty() || !has_user_mark(step().job.uid, "upper-" + step().address)) return;
    try {
        StartedHelper started = start_helper(step().config.helper, {step().job.uid, step().group, {step().group}},
                                             {"end-step", step().address});
        wait_for_helper(started.process.get(), removal_timeout_ms);
    } catch (const Error& error) {
        slurm_spank_log("berth: %s", error.what());
    }
}

/// A leaf for the helper. Without one it stays where slurmstepd is, as under proctrack/linuxproc, which has no cgroups.
void make_leaf(spank_t spank, bool named) {
    try {
        auto group = job_group(sys::read_file("/proc/self/cgroup", proc_file_limit));
        if (!group) return;
        remember_job_group(job_groups_folder, node_name(), item<uint32_t>(spank, S_JOB_ID), *group);
        std::string name = step_name(item<uint32_t>(spank, S_JOB_STEPID));
        step().leaf = Leaf::make(named ? leaf_of_job(*group, name) : leaf_of_step(*group, name));
        step().leaf_is_jobs = named;
        if (group->unified)
            step().tasks_group = sys::open_file(cat(group->mount, tasks_of_step(*group)), directory_flags);
    } catch (const std::exception& error) {
        slurm_debug("berth: the helper stays in the cgroup of slurmstepd: %s", error.what());
    }
}

/// slurm.conf's KillWait, or Slurm's default.
std::chrono::seconds kill_wait(spank_t spank) {
    const slurm_conf_t* known = settings(spank);
    return std::chrono::seconds(known != nullptr ? known->kill_wait : 30);
}

/// What the tasks wait for in the kernel fails with its server. Of a named container that is another process than the
/// step's helper, for which nobody has a use any more.
void end_server(pid_t task) {
    slurm_spank_log("berth: %s: tasks are still there 5 s after SIGKILL; ending the container's file server, for which "
                    "they may wait",
                    node_name().c_str());
    if (step().watch.spares_others())
        kill_server_of(task, step().config.helper);
    else
        step().leaf.kill_all();
    wait_for_helper(step().helper.get(), 0);
}

}  // namespace

void note_job(spank_t spank) {
    step().is_script = is_script(spank);
    step().job = job_of(spank);
    step().group = item<gid_t>(spank, S_JOB_GID);
    step().is_extern = item<uint32_t>(spank, S_JOB_STEPID) == SLURM_EXTERN_CONT;
    step().has_epilog = !has_no_epilog(spank) && !is_without_allocation(step().job.job);
    step().has_job_mounts = may_have_job_mounts(spank);
}

void prepare_step(spank_t spank) {
    step().own.begin();
    // The extern step has no tasks of the user.
    bool environment = asks_for(spank, "environment", "ENVIRONMENT");
    bool named = asks_for(spank, "name", "NAME") ||
                 (environment && has_variable(spank, plan::definition_named_variable));
    step().has_container = (named || environment || asks_for(spank, "image", "IMAGE")) && !step().is_extern;
    step().saves = asks_for(spank, "save", "SAVE");
    if (!step().has_container) return judge_without_container(spank);
    if (named) step().watch.spare_others();
    hold_errors([&] { prepare_container(spank); });
    make_leaf(spank, named);
    step().watch.limit_end(kill_wait(spank), end_server);
    step().watch.ask_for_cause(tell_lack_of_memory);
}

void start_step(spank_t spank) {
    hold_errors([&] {
        if (!step().has_container) return;
        HelperIdentity identity = identity_of(spank);
        Message request = plan::encode(request_of(spank, identity));
        StartedHelper started = start_helper(step().config.helper, identity, {"step"},
                                             {step().leaf.folder(), step().tasks_group.get(), step().job_mounts.get()});
        if (step().job_mounts && !started.has_mounts)
            slurm_info("berth: the container sees the node's /tmp and /dev/shm: the job's mounts cannot be entered");
        if (step().leaf && !started.in_leaf) slurm_debug("berth: the helper could not enter its cgroup");
        if (step().tasks_group && !started.has_devices)
            slurm_debug("berth: the helper sees the devices of the whole job: no programs of cgroups (bpf)");
        send_message(started.socket.get(), request, {}, request_timeout_ms);
        std::vector<Fd> descriptors;
        descriptors.push_back(std::move(started.socket));
        descriptors.push_back(std::move(started.process));
        step().own.hand_over(std::move(descriptors), [](std::vector<Fd> taken) {
            step().socket = std::move(taken.at(0));
            step().helper = std::move(taken.at(1));
            step().job_mounts.reset();
        });
    });
    // The helper has it. Slurm runs TaskProlog, TaskEpilog and the tasks with what is left.
    spank_unsetenv(spank, plan::agreement_variable);
}

void watch_task(spank_t spank) {
    if (!step().helper) return;
    // Slurm would take an error for the node's, and drain that.
    try {
        pid_t task = item<pid_t>(spank, S_TASK_PID);
        step().own.run([task] { watch_process(task); });
    } catch (const std::exception& error) {
        slurm_spank_log(
            "berth: %s: watching over a task: %s; the task runs, and is not ended should the container's file server "
            "die",
            node_name().c_str(), error.what());
    }
}

void task_ended(spank_t spank) {
    if (!step().helper || ++step().ended_tasks < item<uint32_t>(spank, S_JOB_LOCAL_TASK_COUNT)) return;
    step().own.run(end_container);
}

void end_step() {
    if (step().helper) {
        let_helper_go();
        step().ending.finish();
        step().helper.reset();
    }
    if (step().leaf_is_jobs)
        step().leaf.remove_empty();
    else
        step().leaf.end(left_timeout_ms);
    remove_left_files();
    if (!step().address.empty()) remove_step_socket(step().job.uid, step().address);
    step().own.stop();
    end_job_of_step();
}

void end_job(spank_t spank) {
    end_job_in_epilog(job_of(spank), item<gid_t>(spank, S_JOB_GID));
}

}  // namespace berth::spank
