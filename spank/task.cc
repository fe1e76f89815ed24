#include "spank/task.hh"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <exception>

#include "runtime/base/channel.hh"
#include "runtime/base/command.hh"
#include "runtime/base/pages.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/messages.hh"
#include "spank/carried.hh"
#include "spank/join.hh"
#include "spank/own_cgroup.hh"
#include "spank/step.hh"
#include "spank/task_prolog.hh"

namespace berth::spank {

namespace {

void print(std::string_view line) {
    // One write, so that the lines of many tasks do not mix.
    std::string text = cat("berth: ", node_name(), ": ", line, '\n');
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

/// Not by an error code to Slurm, which would add two lines of its own and lose the exit code.
[[noreturn]] void fail(const plan::Failure& failure) {
    if (!failure.shown) print(failure.line);
    _exit(failure.exit_code);
}

char** environment(spank_t spank) {
    char** out = nullptr;
    return spank_get_item(spank, S_JOB_ENV, &out) == ESPANK_SUCCESS ? out : nullptr;
}

/// The value of the variable that starts with `name`, a text like "PATH="; empty when there is none.
std::string variable(spank_t spank, std::string_view name) {
    for (char** entry = environment(spank); entry != nullptr && *entry != nullptr; ++entry)
        if (std::string_view text = *entry; text.starts_with(name)) return std::string(text.substr(name.size()));
    return {};
}

int local_id(spank_t spank) {
    int id = 0;
    spank_get_item(spank, S_TASK_ID, &id);
    return id;
}

/// Hands the helper one end of a new socket pair and returns the other one.
Fd connect_to_helper() {
    auto&& [ours, theirs] = make_channel();
    send_message(step().socket.get(), plan::join_message(), {theirs.get()});
    // The task must not keep the step's socket open: its end of file is what ends the helper.
    step().socket.reset();
    step().helper.reset();
    return std::move(ours);
}

std::vector<std::string> environment_of(spank_t spank) {
    std::vector<std::string> out;
    for (char** entry = environment(spank); entry != nullptr && *entry != nullptr; ++entry) out.emplace_back(*entry);
    return out;
}

plan::TaskRequest task_request(spank_t spank) {
    return {static_cast<uint32_t>(local_id(spank)), environment_of(spank)};
}

/// Waits for the container, showing progress; returns the message with the descriptors of its namespaces.
Received wait_until_ready(int socket) {
    while (auto received = receive_message(socket)) {
        const Message& message = received->message;
        if (plan::is(message, plan::MessageType::progress))
            print(message.value("text"));
        else if (plan::is(message, plan::MessageType::failure))
            fail(plan::decode_failure(message));
        else
            return std::move(*received);
    }
    throw Error("the container's helper died before the container was ready (killed, or out of memory)");
}

void change_environment(spank_t spank, const std::vector<plan::EnvironmentChange>& changes) {
    for (const auto& [name, value] : changes) {
        spank_err_t result =
            value ? spank_setenv(spank, name.c_str(), value->c_str(), 1) : spank_unsetenv(spank, name.c_str());
        if (result != ESPANK_SUCCESS && value)
            throw Error(cat("setting the environment variable ", printable(name),
                            " of the container: Slurm refuses it; leave it out by --container-env"));
    }
}

/// In place of slurmstepd, which would run it next, but in the container. Its setting is this task's own copy: the
/// process was forked for the task.
void run_site_prolog(spank_t spank) {
    slurm_conf_t* known = settings(spank);
    if (known == nullptr || known->task_prolog == nullptr || known->task_prolog[0] == '\0') return;
    change_environment(spank, {{"SLURM_SCRIPT_CONTEXT", "prolog_task"}});
    PrologOutput output = run_prolog(known->task_prolog, environment_of(spank));
    change_environment(spank, output.changes);
    [[maybe_unused]] ssize_t written = write(STDOUT_FILENO, output.text.data(), output.text.size());
    known->task_prolog = nullptr;
}

/// A TMPDIR of the node's is often not in the container. slurmstepd, which makes it next, would complain in two lines
/// before it took /tmp.
void settle_temporary_folder(spank_t spank) {
    std::string path = variable(spank, "TMPDIR=");
    if (!path.empty() && (mkdir(path.c_str(), 0700) != 0 && access(path.c_str(), W_OK | X_OK) != 0))
        change_environment(spank, {{"TMPDIR", "/tmp"}});
}

/// Slurm says to each task which devices are its own; here, in its cgroup and its container, it can be seen whether
/// that is so. The plan says by which variables.
void choose_devices(spank_t spank, const std::vector<plan::VisibleDevices>& devices) {
    if (devices.empty()) return;
    for (const auto& [name, value] :
         plan::visible_device_changes(devices, plan::accessible_devices, environment_of(spank)))
        if (spank_setenv(spank, name.c_str(), value.c_str(), 1) != ESPANK_SUCCESS)
            throw Error(cat("telling the task its devices by ", name, ": Slurm refuses to set it; see slurmd's log"));
}

void check_environment(spank_t spank) {
    for (char** entry = environment(spank); entry != nullptr && *entry != nullptr; ++entry)
        if (size_t size = std::strlen(*entry) + 1; size > longest_string()) {
            std::string_view text = *entry;
            throw Error(cat("the environment variable ", printable(text.substr(0, text.find('='))), " takes ", size,
                            " bytes; Linux passes at most ", longest_string(), " to a program"),
                        exit_not_executable);
        }
}

/// Of srun --bcast=FOLDER/ the command is the folder. slurmstepd adds the file's name after the plugin's last turn (its
/// task.c; BCAST_FILE_FMT since 23.02).
std::string brought_program(spank_t spank, const std::string& folder) {
    uint32_t job = 0, step = 0;
    spank_get_item(spank, S_JOB_ID, &job);
    spank_get_item(spank, S_JOB_STEPID, &step);
    std::string name = cat("slurm_bcast_", job, '.', step, '_', node_name());
    if (access((folder + name).c_str(), F_OK) != 0)
        throw Error(cat("running ", printable(folder, 4096), ": it is a folder, and srun --bcast has put no ", name,
                        " there that the container has; mount the folder by --container-mounts, or name a program"),
                    exit_not_found);
    return folder + name;
}

/// With --multi-prog srun puts the file's text behind its name, and only slurmstepd knows the task's command. Its first
/// line that is no comment begins with the numbers of tasks.
bool may_be_multi_prog(std::string_view text) {
    for (const std::string& line : split(text, '\n')) {
        std::string_view rest = trimmed(line);
        if (rest.empty() || rest.starts_with('#')) continue;
        size_t end = rest.find_first_not_of("0123456789,-*");
        return end != rest.npos && end > 0 && (rest[end] == ' ' || rest[end] == '\t');
    }
    return false;
}

void check_command(spank_t spank) {
    int count = 0;
    char** arguments = nullptr;
    if (spank_get_item(spank, S_JOB_ARGV, &count, &arguments) != ESPANK_SUCCESS || count < 1) return;
    if (count >= 2 && may_be_multi_prog(arguments[1])) return;
    std::string program = arguments[0];
    if (program.ends_with('/')) program = brought_program(spank, program);
    find_command_or_file(program, variable(spank, "PATH="));
}

void join(spank_t spank) {
    drop_inherited_handlers();
    // proctrack/linuxproc sends no signal, not even SIGKILL, to processes that bear slurmstepd's name; without another
    // one a task that waits for a pull could not be cancelled. The name lasts until the command is executed.
    prctl(PR_SET_NAME, "berth-task", 0, 0, 0);
    Fd socket = connect_to_helper();
    run_site_prolog(spank);
    send_message(socket.get(), plan::encode(task_request(spank)));
    Received received = wait_until_ready(socket.get());
    plan::Ready ready = plan::decode_ready(received.message);
    socket.reset();
    enter_namespaces(std::move(received.descriptors), ready);
    if (ready.own_cgroup) enter_own_cgroup();
    change_environment(spank, ready.environment);
    choose_devices(spank, ready.devices);
    give_up_privileges(ready.seccomp_program, ready.capabilities);
    settle_temporary_folder(spank);
    check_environment(spank);
    check_command(spank);
}

/// One task says what a user may not expect.
void stay_on_node(spank_t spank) {
    if (step().lost_container)
        fail({"sbatch was asked for a container, by a variable like BERTH_CONTAINER_IMAGE that --export or "
              "--export-file has left out: the batch script does not run; give --container-image, or let the variable "
              "pass",
              exit_failure, false});
    if (step().is_beside_script && local_id(spank) == 0)
        print("this step runs on the node, and its job's batch script in a container: its srun had nothing of the "
              "job's environment; give it --container-image as well, or --container-image= for the node");
}

}  // namespace

void join_container(spank_t spank) {
    if (step().is_script) drop_marks(spank);
    if (!step().has_container) return stay_on_node(spank);
    if (step().held_error) fail({step().held_error->what(), step().held_error->exit_code(), local_id(spank) != 0});
    try {
        join(spank);
    } catch (const Error& error) {
        fail({error.what(), error.exit_code(), false});
    } catch (const std::exception& error) {
        fail({error.what(), exit_failure, false});
    }
}

}  // namespace berth::spank
