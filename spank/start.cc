#include "spank/start.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/messages.hh"
#include "spank/helper.hh"
#include "spank/inhabitants.hh"
#include "spank/job_leaves.hh"
#include "spank/run_directory.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

constexpr int request_timeout_ms = 10'000;
/// Of what the helper says, which is the user's process: a line, and lines before Slurm is looked at again.
constexpr size_t longest_text = 4096;
constexpr int most_at_once = 100;
constexpr size_t cgroups_limit = 64 * 1024;
/// The node waits for its epilog; what is not removed by then is left to the next sweep.
constexpr int end_job_timeout_ms = 20'000;
constexpr int leaf_timeout_ms = 2'000;

template <typename Value>
Value item(spank_t spank, spank_item_t which) {
    Value value{};
    if (spank_get_item(spank, which, &value) != ESPANK_SUCCESS)
        throw Error(
            "asking Slurm about the step: no answer; install the spank_berth.so that was built for this release of "
            "Slurm");
    return value;
}

/// The value is the helper's business: only that there is one matters here.
bool has_variable(spank_t spank, const char* name) {
    char start[2] = {};
    spank_err_t answer = spank_getenv(spank, name, start, sizeof start);
    return answer == ESPANK_NOSPACE || (answer == ESPANK_SUCCESS && start[0] != '\0');
}

/// By flag or by variable: "image" for --container-image, BERTH_CONTAINER_IMAGE and PYXIS_CONTAINER_IMAGE.
bool asks_for(spank_t spank, const std::string& option, const std::string& variable) {
    return plan::given(step().options, "container-" + option) != nullptr ||
           has_variable(spank, ("BERTH_CONTAINER_" + variable).c_str()) ||
           has_variable(spank, ("PYXIS_CONTAINER_" + variable).c_str());
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

/// slurmstepd's working directory is the job's by now.
std::string working_directory() {
    std::string out(4096, '\0');
    return getcwd(out.data(), out.size()) != nullptr ? out.c_str() : "/";
}

/// Where Slurm makes temporary folders on this node, with what stands for the node's names in it.
std::string tmp_fs() {
    std::string out = &slurm_conf != nullptr && slurm_conf.tmp_fs != nullptr ? slurm_conf.tmp_fs : "/tmp";
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for (const auto& [pattern, name] :
         {std::pair<std::string, std::string>("%n", node_name()), std::pair<std::string, std::string>("%h", host)})
        if (size_t at = out.find(pattern); at != std::string::npos) out.replace(at, pattern.size(), name);
    return out;
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
    out.tmp_fs = tmp_fs();
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

void let_helper_go() {
    step().watch.stop();
    step().socket.reset();
    if (step().helper) step().ending.begin(step().helper.get(), step().leaf_is_jobs ? nullptr : &step().leaf);
}

void show(const Message& message) {
    slurm_spank_log("berth: %s: %s", node_name().c_str(), printable(message.value("text"), longest_text).c_str());
}

/// What the helper said of the save until nothing is there to read, or what is read is enough for once; true at the end
/// of it.
bool show_progress(int socket, Inbox& inbox) {
    for (int left = most_at_once; left > 0; --left) {
        Inbox::Status status = inbox.read(socket);
        if (status != Inbox::Status::message) return status == Inbox::Status::closed;
        show(inbox.take().message);
    }
    return false;
}

/// Shows what the helper says of the save until that has ended; false when Slurm ends the step before, whatever the
/// helper still says or leaves unsaid.
bool show_save(int socket, int sentinel) {
    pollfd waiting[2] = {{socket, POLLIN, 0}, {sentinel, POLLIN, 0}};
    for (Inbox inbox;;) {
        if (poll(waiting, 2, -1) < 0 && errno != EINTR) throw SysError("waiting");
        if (waiting[0].revents != 0 && show_progress(socket, inbox)) return true;
        if (waiting[1].revents != 0) return false;
    }
}

/// Lets the helper save the container. srun hears of the last task's end only after this.
void follow_save() {
    step().watch.stop();
    shutdown(step().socket.get(), SHUT_WR);
    try {
        step().sentinel.start();
        if (!show_save(step().socket.get(), step().sentinel.descriptor()))
            slurm_spank_log("berth: %s: the step was cancelled while its container was saved: it is not saved",
                            node_name().c_str());
    } catch (const std::exception& error) {
        slurm_spank_log("berth: %s: waiting for the container to be saved: %s", node_name().c_str(), error.what());
    }
    step().socket.reset();
}

constexpr int last_word_ms = 300;

/// What the helper said when it ended the container itself, because its files were gone. Never waits for it.
void show_last_message(int socket) {
    try {
        Inbox inbox;
        if (inbox.read(socket) != Inbox::Status::message) return;
        Message message = inbox.take().message;
        if (!plan::is(message, plan::MessageType::progress)) return;
        show(message);
        // Over another connection srun hears of a task that was killed, and listens no more.
        poll(nullptr, 0, last_word_ms);
    } catch (const Error&) {
        // It was cut short; that the tasks were killed is known to everybody.
    }
}

/// The owner of the user's folder in /run when the job has left its mark there; nothing otherwise. Root follows no link
/// of the user's.
std::optional<HelperIdentity> owner_of_mark(uid_t uid, uint32_t job) {
    Fd folder = open_run_directory(uid);
    struct stat info {};
    if (!folder || fstat(folder.get(), &info) != 0 || info.st_uid != uid) return std::nullopt;
    if (faccessat(folder.get(), ("job-" + std::to_string(job)).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return std::nullopt;
    return HelperIdentity{uid, info.st_gid, {info.st_gid}};
}

/// A leaf for the helper. Without one it stays where slurmstepd is, as under proctrack/linuxproc, which has no cgroups.
void make_leaf(spank_t spank, bool named) {
    try {
        auto group = job_group(sys::read_file("/proc/self/cgroup", cgroups_limit));
        if (!group) return;
        remember_job_group(job_groups_folder, node_name(), item<uint32_t>(spank, S_JOB_ID), *group);
        std::string name = step_name(item<uint32_t>(spank, S_JOB_STEPID));
        step().leaf = Leaf::make(named ? leaf_of_job(*group) : leaf_of_step(*group, name));
        step().leaf_is_jobs = named;
    } catch (const std::exception& error) {
        slurm_debug("berth: the helper stays in the cgroup of slurmstepd: %s", error.what());
    }
}

/// slurm.conf's KillWait, or Slurm's default.
std::chrono::seconds kill_wait() {
    return std::chrono::seconds(&slurm_conf != nullptr ? slurm_conf.kill_wait : 30);
}

/// What the tasks wait for in the kernel fails with its server. Of a named container that is another process than the
/// step's helper.
void end_server(pid_t task) {
    slurm_spank_log("berth: %s: tasks are still there 5 s after SIGKILL; ending the container's file server, for which "
                    "they may wait",
                    node_name().c_str());
    if (step().watch.spares_others()) return kill_server_of(task, step().config.helper);
    step().leaf.kill_all();
    wait_for_helper(step().helper.get(), 0);
}

}  // namespace

void prepare_step(spank_t spank) {
    // The extern step has no tasks of the user.
    bool named = asks_for(spank, "name", "NAME");
    step().has_container =
        (named || asks_for(spank, "image", "IMAGE")) && item<uint32_t>(spank, S_JOB_STEPID) != SLURM_EXTERN_CONT;
    step().saves = asks_for(spank, "save", "SAVE");
    if (named) step().watch.spare_others();
    hold_errors([&] {
        if (step().has_container) make_run_directory(item<uid_t>(spank, S_JOB_UID), item<gid_t>(spank, S_JOB_GID));
    });
    if (step().has_container) make_leaf(spank, named);
    step().watch.limit_end(kill_wait(), end_server);
}

void start_step(spank_t spank) {
    hold_errors([&] {
        if (!step().has_container) return;
        HelperIdentity identity = identity_of(spank);
        Message request = plan::encode(request_of(spank, identity));
        StartedHelper started = start_helper(step().config.helper, identity, {"step"}, step().leaf.folder());
        if (step().leaf && !started.in_leaf) slurm_debug("berth: the helper could not enter its cgroup");
        send_message(started.socket.get(), request, {}, request_timeout_ms);
        step().socket = std::move(started.socket);
        step().helper = std::move(started.process);
    });
}

void watch_task(spank_t spank) {
    if (!step().helper) return;
    pid_t task = item<pid_t>(spank, S_TASK_PID);
    if (step().saves) step().sentinel.learn_from(task);
    step().watch.add_task(task, step().helper.get(), report_death);
}

void task_ended(spank_t spank) {
    if (!step().helper || ++step().ended_tasks < item<uint32_t>(spank, S_JOB_LOCAL_TASK_COUNT)) return;
    if (step().saves && step().socket) follow_save();
    if (step().socket) show_last_message(step().socket.get());
    let_helper_go();
}

void end_step() {
    if (step().helper) {
        let_helper_go();
        step().ending.finish();
        step().helper.reset();
    }
    if (!step().leaf_is_jobs) step().leaf.end(leaf_timeout_ms);
}

void end_job(spank_t spank) {
    uint32_t job = item<uint32_t>(spank, S_JOB_ID);
    JobLeaves leaves(job_groups_folder, node_name(), job);
    if (auto owner = owner_of_mark(item<uid_t>(spank, S_JOB_UID), job)) {
        StartedHelper started =
            start_helper(step().config.helper, *owner, {"end-job", std::to_string(job)}, leaves.folder());
        wait_for_helper(started.process.get(), end_job_timeout_ms);
    }
    if (!leaves.end(leaf_timeout_ms))
        slurm_spank_log("berth: %s: ending what job %u has left: processes are still there after SIGKILL; see what "
                        "they wait for (ps -eo pid,stat,wchan,cgroup)",
                        node_name().c_str(), job);
}

}  // namespace berth::spank
