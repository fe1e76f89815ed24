// What the plugin and the step's helper say to each other, as plain values, and their form on the channel. Pure.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/channel.hh"
#include "runtime/plan/plan.hh"
#include "runtime/request/options.hh"
#include "runtime/telemetry/event.hh"

namespace berth::plan {

/// join, progress, failure, status, info and stop are read in every version: two releases can at least refuse each
/// other in words, tell what runs and end it. The others are read in this version alone.
enum class MessageType : uint16_t {
    step = 1,      ///< plugin to helper, once, on the step's socket: StepRequest
    join = 2,      ///< a task to the helper on the step's socket; carries one end of the task's own socket pair
    task = 3,      ///< a task to the helper on its own socket: TaskRequest
    progress = 4,  ///< helper to a task, any number: one line in "text"
    /// helper to a task: Ready, with descriptors: user namespace, mount namespace, and those of Ready::namespaces
    ready = 5,
    failure = 6,   ///< helper to a task: Failure
    status = 7,    ///< to the helper of a named container on a connection: what runs? Answered by `info`
    info = 8,      ///< the answer: HelperInfo
    stop = 9,      ///< to the helper of a named container: end it with all that runs in it
};

/// What slurmstepd, which is root, takes of the helper's words on the step's socket: short messages of a few records,
/// without descriptors, and so many lines at a step's end. A helper that says more is killed.
inline constexpr ChannelLimits said_limits{4096, 4096, 8, 0};
inline constexpr size_t said_lines = 200;
/// While the step's tasks run: so many that slurmstepd need not wait for srun to take them.
inline constexpr size_t said_meanwhile = 20;
/// Bytes of one such line: a packet has room for it.
inline constexpr size_t said_line_limit = 3072;

/// The first message of a step: everything that the helper needs to know.
struct StepRequest {
    GivenOptions options;
    uint32_t job = 0;
    std::string step;  ///< "0", "batch", "interactive"
    std::string node;
    uid_t uid = 0;
    gid_t gid = 0;
    std::string cwd;
    std::string tmp_fs;                    ///< Slurm's TmpFS on this node; empty when unknown
    std::string slurm;                     ///< where Slurm is installed ("/opt/slurm-24.11"); empty when unknown
    std::string batch_script;              ///< host path of the spooled script; empty when this is no batch step
    std::vector<std::string> environment;  ///< NAME=VALUE of the step
    uint32_t tasks = 1;      ///< of the step on this node
    uint32_t node_index = 0; ///< of this node among those of the step
    std::vector<std::string> settings = {};  ///< BERTH_KEY=VALUE: keys of the site file that plugstack.conf sets
    bool operator==(const StepRequest&) const = default;
};

struct TaskRequest {
    uint32_t local_id = 0;  ///< of the task on this node
    std::vector<std::string> environment;
    bool asks_for_devices = false;  ///< the answer is to have Ready::found
    bool operator==(const TaskRequest&) const = default;
};

/// What whoever joins a container needs to find out whether its devices are those that he was granted.
struct FoundDevices {
    std::vector<std::string> files;  ///< of the container: DeviceGrant::files
    std::vector<std::string> image;  ///< NAME=VALUE of the image, which may ask for devices
    bool operator==(const FoundDevices&) const = default;
};

struct Ready {
    std::string workdir;  ///< absolute, in the container
    std::vector<EnvironmentChange> environment;
    std::string seccomp_program;  ///< an array of struct sock_filter, or empty
    std::vector<uint32_t> namespaces = {};  ///< CLONE_NEW* of each descriptor after the first two
    bool remap_root = false, writable = true;  ///< as the container was started, for those who ask for something else
    std::vector<std::string> entrypoint = {};  ///< of the image, for those who run it
    std::vector<VisibleDevices> devices = {};  ///< for the task to try and choose from
    uint64_t capabilities = 0;  ///< that tasks keep in the container's namespaces (bits 1 << CAP_*)
    std::vector<PhaseTime> phases = {};  ///< of the container's start, once, for the one who has started its helper
    bool own_cgroup = false;  ///< the task makes a cgroup namespace, whose root is its own cgroup
    std::optional<FoundDevices> found = {};  ///< where it was asked for, by a helper that knows
    std::optional<bool> mount_home = {};    ///< as it was started; nothing from a helper that does not say so
    std::vector<std::string> mounts = {};   ///< see Plan::mounts
    bool nested = false;                    ///< as it was started; false from a helper that does not say so
    bool operator==(const Ready&) const = default;
};

struct Failure {
    std::string line;  ///< finished, without "berth:" in front
    int exit_code = 125;
    bool shown = false;  ///< another task of the step has been told to print it
    bool operator==(const Failure&) const = default;
};

/// What the helper of a named container says about itself.
struct HelperInfo {
    uint64_t user_namespace = 0;  ///< inode number, by which the container's processes are recognised
    int64_t started = 0;          ///< seconds since 1970
    uint64_t memory = 0;          ///< bytes that the helper, which is the file server, has; 0: not known
    bool operator==(const HelperInfo&) const = default;
};

Message encode(const StepRequest& request);
Message encode(const TaskRequest& request);
Message encode(const Ready& ready);
Message encode(const Failure& failure);
Message encode(const HelperInfo& info);
Message join_message();
Message status_message();
Message stop_message();
Message progress_message(std::string_view text);

/// As progress_message(), from the helper to slurmstepd: why the container is no more. The step's tasks end now.
Message last_message(std::string_view text);

/// What a container's helper answers to a request of another version, from whoever would join it; nothing for one of
/// this version.
std::optional<Failure> refusal_of(const Message& request);

/// Each throws Error when the message is of another type or version, or lacks something, or has a number out of range.
/// Records that this release does not know are passed over.
StepRequest decode_step(const Message& message);
TaskRequest decode_task(const Message& message);
Ready decode_ready(const Message& message);
std::string progress_text(const Message& message);
bool is_last(const Message& message);
Failure decode_failure(const Message& message);
HelperInfo decode_info(const Message& message);

inline bool is(const Message& message, MessageType type) {
    return message.type == static_cast<uint16_t>(type);
}

}  // namespace berth::plan
