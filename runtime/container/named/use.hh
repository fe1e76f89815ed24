// Using a named container: joining the one that runs, starting the one that is there, or making it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/container/named/folder.hh"
#include "runtime/container/named/helper.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/images/open.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// What a start is asked for and what it is asked by.
struct ContainerStart {
    plan::ContainerName wanted;
    plan::Request request;  ///< `image` may be empty where the container must be there already
    bool again = false;     ///< with what was recorded at its creation, for `berth exec`
    plan::Caller caller;
    plan::Job job = {};
    const plan::Site& site;
    PullWatch watch;  ///< its `progress` gets notes as well
    /// what the request leaves open is as it was at the creation, where that is recorded; else the site decides
    bool inherit = true;
    bool of_srun = false;                     ///< options have srun's names for the user, not those of `berth run`
    /// whoever joins has been granted devices of his own: see join_running()
    bool compares_devices = false;
    JobTag tag = {};                          ///< see open_image()
    enroot::DataPath data_path = {};          ///< is noted of a container that is made
    std::function<void()> forked = {};        ///< see start_helper()
    /// called with its name at the end of each part of a start (image, plan); the helper tells the others
    std::function<void(const char*)> lap = {};
};

/// The container, of which this process is a member as long as `connection` is open.
struct UsedContainer {
    Fd connection;
    JoinedContainer joined = {};
    plan::NameAction action;        ///< what was done to get there
    plan::ContainerRecord record;
    std::vector<std::string> command = {};  ///< the image's, when it was opened here
    std::shared_ptr<ChunkMap> map = {};  ///< of an image that was opened here before its layers were
    std::optional<KeeperPipes> keeper = {};   ///< of such a one, until the container has started
};

/// Joins a container that runs, over a connection to its server; nothing when that has ended meanwhile. Throws Error
/// when the container is not as asked for, or where devices are compared and it has some that were not granted here.
/// What it lacks is said.
std::optional<JoinedContainer> join_running(const ContainerStart& start, int connection,
                                            const std::vector<std::string>& environment);

/// Of any number of processes that ask at once one creates or starts the container, and the others join it.
/// `environment` is that of the task to be. A container that could not be started the first time is removed again. Call
/// from a process of one thread. Throws Error.
UsedContainer use_container(const ContainerFolder& folder, const ContainerStart& start,
                            const std::vector<std::string>& environment);

}  // namespace berth
