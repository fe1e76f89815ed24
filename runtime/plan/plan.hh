// The Plan: everything a start does to a container, as a plain value that can be printed, compared and executed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/plan/device_grant.hh"
#include "runtime/plan/edit.hh"
#include "runtime/plan/host_facts.hh"
#include "runtime/plan/image_config.hh"
#include "runtime/plan/source_policy.hh"
#include "runtime/request/request.hh"

namespace berth::plan {

/// What one maker of edits (hooks/) changes in a container: CDI's containerEdits, done and with the wish they came of.
struct ContainerEdits {
    std::string vendor;  ///< of the maker, such as "nvidia": one of those in hooks/makers.cc
    std::vector<Edit> edits;
    std::vector<std::string> environment;   ///< NAME=VALUE, set unless the user keeps the host's value
    std::vector<DeviceVariable> variables;  ///< by which tasks are told which of `devices` are theirs
    std::vector<VisibleDevice> devices;     ///< that tasks choose from
    /// Hooks of CDI specifications that say what some of the edits do, where CDI has no other word for it.
    std::vector<std::string> cdi_hooks;
    std::vector<std::string> warnings;  ///< a line each, for the user
    bool granted = false;  ///< it depends on what the step may have of the node: see device_grant.hh
};

/// Of those that depend on it.
DeviceGrant device_grant(const std::vector<ContainerEdits>& made);

struct Identity {
    uid_t host_uid = 0, inside_uid = 0;
    gid_t host_gid = 0, inside_gid = 0;
};

/// How the environment of a task is made from its own one and the image's; applied by environment_changes().
struct EnvironmentRules {
    std::vector<std::string> image;      ///< NAME=VALUE of the image
    std::vector<std::string> keep_host;  ///< names of --container-env
    std::vector<std::string> remove;     ///< names that never pass (LANG, LANGUAGE, LC_ALL)
    std::vector<std::string> set;        ///< NAME=VALUE set by berth last (HOME under remap-root)
    std::string slurm_conf;  ///< what the container has of the configuration that slurmd was handed; empty: nothing
    std::vector<std::string> site = {};  ///< NAME=VALUE of the site, in place of the image's
    /// NAME=VALUE of the user's environment, in place of both; ${VAR} is theirs, else the task's; empty: removed
    std::vector<std::string> user = {};
    /// NAME=VALUE of the caller's account, for what nobody has set (srun --export=NONE leaves no HOME)
    std::vector<std::string> account = {};
};

/// What the tasks may not call.
struct SystemCalls {
    bool confined = true;            ///< what the built-in list has is refused
    std::vector<std::string> allow;  ///< but for these
    std::vector<std::string> deny;   ///< and these besides
    bool fake_chown = false;  ///< changes of owner to ids that the container does not have return 0 and do nothing
};

struct Plan {
    Identity identity;
    bool writable = true;
    bool remap_root = false;
    bool nested = false;  ///< see Request::nested
    bool mount_home = false;
    std::vector<std::string> mounts;  ///< that the user asked for, as mount_key() has them
    OwnNamespaces unshare;
    std::string hostname;  ///< in a UTS namespace of its own; empty: the node's
    uint64_t tmpfs_size = 0;
    std::vector<Edit> edits;  ///< in the order they are done
    SourcePolicy sources;     ///< of their mounts; see judge_sources()
    std::string workdir;      ///< absolute path in the container
    bool workdir_required = false;  ///< asked for by option: missing is an error; else made from the image's WorkingDir
    EnvironmentRules environment;
    SystemCalls system_calls;
    /// of the tasks, over the container's own namespaces and the caller's own files: bits 1 << CAP_*
    uint64_t capabilities = 0;
    std::vector<std::string> entrypoint;  ///< of the image
    std::vector<VisibleDevices> devices;  ///< that tasks choose from, of each vendor that has some here
    std::vector<std::string> granted;     ///< see DeviceGrant::files
    std::vector<std::string> command;  ///< entrypoint and cmd of the image, for `berth run` without a command
};

/// Decides everything; touches nothing. Throws Error for what can be refused by looking at it (a mount over "/").
/// Where the site's policy does not allow every source of a mount, judge_sources() (policy.hh) has to follow: until
/// then no source that the job chose can be mounted.
/// What `devices` has comes after the system's edits and before the user's mounts; of two that contradict each other
/// the later one wins.
Plan make_plan(const Request& request, const Caller& caller, const Job& job, const Site& site, const HostFacts& host,
               const ImageConfig& image, const std::vector<ContainerEdits>& devices = {});

/// The variables that the site gives to a container whose image has those of `image`: as in the file, with %X in them.
std::vector<std::string> site_variables(const Site& site, const std::vector<std::string>& image);

/// The system calls that tasks of a Plan::nested container may make in spite of the built-in list. The kernel judges
/// each by the namespace that it is made in: outside of those that a program has made itself it may do no more than
/// before.
const std::vector<std::string>& nesting_calls();

/// True for the variables that would ask Berth for rights where a program of the container starts a step: of an image
/// none is taken.
bool asks_for_rights(const std::string& name);

/// One change of a process's environment: set, or removed when there is no value.
struct EnvironmentChange {
    std::string name;
    std::optional<std::string> value;
    bool operator==(const EnvironmentChange&) const = default;
};

/// The changes that turn `task` (NAME=VALUE) into the environment inside; only real differences. Throws Error for a
/// variable of the user's environment that names one which is not set.
std::vector<EnvironmentChange> environment_changes(const EnvironmentRules& rules, const std::vector<std::string>& task);

/// Has PWD name the directory in which the command begins, absolute in the container, unless the user keeps or sets it:
/// shells correct it themselves, other programs believe it.
void set_working_directory(std::vector<EnvironmentChange>& changes, const std::string& workdir, const Request& request);

/// The job's `environment` with what the user's --container-environment says that can choose devices: its variables
/// without ${VAR}, and its CDI devices in BERTH_DEVICES.
std::vector<std::string> with_device_variables(std::vector<std::string> environment, const Request& request);

/// `changes` of an environment `task`, and after them `variables` (NAME=VALUE) of the user's --container-environment,
/// but for the names in `kept` that the task has. ${VAR} in a value is looked up in the environment as `changes` leave
/// it. Throws Error for one that is not set.
std::vector<EnvironmentChange> with_user_variables(std::vector<EnvironmentChange> changes,
                                                   const std::vector<std::string>& variables,
                                                   const std::vector<std::string>& kept,
                                                   const std::vector<std::string>& task);

/// The content of an account file after `edit` is done to `content`.
std::string with_account_line(const std::string& content, const AccountLine& edit);

}  // namespace berth::plan
