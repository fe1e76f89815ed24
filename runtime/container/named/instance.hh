// Instances: containers with a name that run in the background, of `apptainer instance`.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/config/site.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/container/named/helper.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// Of the folders of instances among those of containers.
inline constexpr const char* instance_scope = "instance";

struct InstanceRecord {
    std::string name;
    pid_t keeper = 0;                          ///< a process of the node's, with which the instance ends
    std::string image;                         ///< as people see it: an absolute path, or a URI
    std::string out, err;                      ///< files that what it starts prints to
    std::string home;                          ///< inside
    std::vector<std::string> entrypoint, cmd;  ///< of the image
    bool has_scripts = false;                  ///< see OpenedImage
    bool operator==(const InstanceRecord&) const = default;
};

/// The record as a file has it; parse_instance() throws Error for text that this does not make. Pure.
std::string instance_text(const InstanceRecord& record);
InstanceRecord parse_instance(std::string_view text, const std::string& what);

/// Letters, digits and . _ - as with Apptainer. Throws Error for other names.
void check_instance_name(const std::string& name);

/// The instance of that name when it runs; nothing otherwise.
std::optional<InstanceRecord> find_instance(const ContainerFolder& folder, const std::string& name);

/// Those that run, by their names. What is left of others is removed.
std::vector<InstanceRecord> all_instances(const ContainerFolder& folder);

/// Waits until the instance, which was asked to end, has done so, and removes what is left of its name. Nothing for one
/// that runs.
void forget_instance(const ContainerFolder& folder, const std::string& name);

struct InstanceStart {
    InstanceRecord record;  ///< its keeper comes to be known
    const plan::Plan& plan;
    std::vector<std::string> command;  ///< empty: nothing runs in it
    std::vector<std::string> environment;
    InstancePlace place;
    const plan::Site& site;
    std::function<void()> forked = {};  ///< called in the process that stays, to close what it must not hold
};

/// Starts the instance and returns when its command has begun; its record. It lives until its keeper, a process of its
/// own session, ends, or slurmstepd, where the caller is in a step. The keeper passes signals on to the processes of
/// the instance, and ends by one when there is none; what loses its parent becomes its child. Call from a process of
/// one thread. Throws Error, also when it runs already.
InstanceRecord start_instance(const ContainerFolder& folder, InstanceStart start, ContainerImage image);

/// The parent of a process; 0 when there is none here.
pid_t parent_of(pid_t process);

/// What the instance has started, as far as it lives: not what others run in it, and nothing of Berth's. By the inode
/// number of its user namespace and its helper's number.
std::vector<pid_t> processes_of_instance(const InstanceRecord& record, ino_t user_namespace, pid_t helper);

/// Sends a signal to these processes.
void send_to(const std::vector<pid_t>& processes, int signal);

/// The number of the process at the other end of a connection to a helper that listens; 0 when it has none here.
pid_t helper_at(const Fd& connection);

}  // namespace berth
