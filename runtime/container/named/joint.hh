// A joint container: one that equal starts of a Slurm step share, for as long as one of them is in it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/config/site.hh"
#include "runtime/container/named/helper.hh"
#include "runtime/container/start.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// The step that a process is of by its environment (NAME=VALUE), "JOB.STEP" or "JOB.batch"; empty outside of steps.
/// Pure.
std::string step_in_environment(const std::vector<std::string>& environment);

/// The lines of /proc/self/cgroup that name a step, without what is behind it there: groups of single tasks are no
/// difference. Pure.
std::string step_of_cgroups(std::string_view cgroups);

/// Why a start cannot be one of several in a container; it can have its own.
struct WontJoin : Error {
    using Error::Error;
};

/// Of one start.
struct JointStart {
    std::string step;           ///< see step_in_environment(); not empty
    const plan::Plan& plan;
    ContainerStorage storage;   ///< what of it no other path says: a folder, or that it is in place
    std::string upper_folder;   ///< of mount.upper, for what is written otherwise; empty: memory
    const plan::Site& site;
    const plan::Caller& caller;
    std::function<void()> forked = {};  ///< see start_helper()
};

/// This process is a member of the container as long as `connection` is open.
struct JointContainer {
    Fd connection;
    JoinedContainer joined;
    bool started = false;  ///< by this process
};

/// Joins the container of an equal start of the same step, or starts it: of any number of processes that ask at once
/// one starts it, and the others join. Equal are starts with the same image file, the same likeness() of plans, user,
/// namespaces and control group of the step. `image` is taken only where this process starts the container, in a helper
/// of its own, which ends with its last member. Waits a bounded time for another process that makes one, and throws
/// WontJoin then, as where there is no folder for the sockets. Throws Error where the container cannot be started. Call
/// from a process of one thread.
JointContainer use_joint_container(const JointStart& start, ContainerImage& image);

}  // namespace berth
