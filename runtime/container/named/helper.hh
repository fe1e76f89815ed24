// The helper of a named container: a process of its own that serves the container for as long as somebody is in it.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/container/named/folder.hh"
#include "runtime/container/named/pull_keeper.hh"
#include "runtime/container/start.hh"
#include "runtime/images/opened.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/plan/messages.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// The image of a container, as it was opened for a helper.
struct HelperImage {
    ContainerImage image;
    std::optional<EarlyPull> early = {};  ///< of layers that have still to come
    KeeperPipes* pipes = nullptr;         ///< of the caller, where there is such a pull
};

/// Starts the helper of the container `name`, a child in a session of its own, and gives back a connection to it.
/// Whether the container starts is what ask_to_join() tells. The helper ends the container when the last connection
/// that joined is closed. `lock` is the container's lock, which is not passed on; `forked` is called in the helper, to
/// close what else of the caller's it must not hold. Call from a process of one thread. Throws Error.
Fd start_helper(const ContainerFolder& folder, const std::string& name, const plan::Plan& plan, HelperImage image,
                const plan::Site& site, Lock& lock, const std::function<void()>& forked = {});

/// As start_helper(), for a container over the files of one that runs: `image.root` is its root, and `other` the
/// connection that keeps it running. Its end is the end of this one too. Nobody but the caller can join.
Fd start_helper_beside(const ContainerFolder& folder, const std::string& name, const plan::Plan& plan,
                       ContainerImage image, const plan::Site& site, Fd other,
                       const std::function<void()>& forked = {});

/// A joint container, see joint.hh: where its helper is reached, and where it writes.
struct JointPlace {
    Fd listener;
    Fd folder;              ///< of the socket, whose name goes before the listener does
    std::string socket;
    ContainerStorage storage;
    std::string upper_folder;  ///< of mount.upper, where `storage` has no path; empty: memory
};

/// As start_helper(), for a container that nobody finds by a name: `what` is what messages call it. Its members are
/// tasks that Slurm may have bound to single CPUs; the helper is not.
Fd start_joint_helper(JointPlace place, const std::string& what, const plan::Plan& plan, ContainerImage image,
                      const plan::Site& site, const std::function<void()>& forked = {});

/// Where an instance writes: see JointPlace.
struct InstancePlace {
    ContainerStorage storage;
    std::string upper_folder;
};

/// As start_helper(), for the container of an instance: it ends with the caller's connection, whoever else is in it,
/// and its folder with it. Call with the container's lock.
Fd start_instance_helper(const ContainerFolder& folder, const plan::Plan& plan, const std::string& name,
                         ContainerImage image, const plan::Site& site, const InstancePlace& place, Lock& lock);

/// How long whoever removes a container waits for its helper to end.
constexpr int last_run_end_ms = 10'000;

/// The container's ContainerFolder::running_lock() when its last run is over, with what that left when its helper was
/// killed; empty while the helper still lives after `timeout_ms`. Throws Error when something that was left cannot be
/// ended.
Lock lock_after_last_run(const ContainerFolder& folder, const std::string& name, int timeout_ms = last_run_end_ms);

/// What a process needs to be a task of a container that a helper serves.
struct JoinedContainer {
    StartedContainer container;  ///< for join_container()
    std::vector<plan::EnvironmentChange> environment;
    bool remap_root = false, writable = true, nested = false;
    std::optional<bool> mount_home;   ///< nothing is known of one that an older release serves
    std::vector<std::string> mounts;  ///< see plan::Plan
    std::vector<std::string> entrypoint;  ///< of the image
    std::vector<plan::VisibleDevices> devices;  ///< for a task to try and choose from
    std::optional<plan::FoundDevices> found;    ///< where it was asked for; none of a helper that does not know
};

/// What a process that joins by `task` needs to know of a container that was made as `plan` says; the changes of their
/// environment are left to the caller.
plan::Ready ready_of(const plan::Plan& plan, const StartedContainer& container, const plan::TaskRequest& task);

/// The descriptors that go with it.
std::vector<int> namespaces_of(const StartedContainer& container);

/// Asks over a connection to the helper to join with this environment; from then on the connection keeps the container
/// alive. Nothing when the helper has ended meanwhile. Throws the Error that the start failed with.
/// `waiting` is called before the answer is waited for, which takes as long as the container's start.
std::optional<JoinedContainer> ask_to_join(int connection, const std::vector<std::string>& environment,
                                           const std::function<void()>& waiting = {});
std::optional<JoinedContainer> ask_to_join(int connection, const plan::TaskRequest& task,
                                           const std::function<void()>& waiting = {});

/// Says that the task has ended, and waits until the helper has taken note: when it was the last one, until the
/// container has ended.
void leave(Fd connection);

/// What the helper says about itself; nothing when it has ended meanwhile.
std::optional<plan::HelperInfo> ask_for_status(int connection);

/// Has the helper end the container with all that runs in it, and waits for that.
void ask_to_stop(Fd connection);

}  // namespace berth
