// From what the user wrote to an image that can be started: through the store, a pull, or a file or directory used as
// it lies.
#pragma once
#include <functional>
#include <string>

#include "runtime/config/site.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/plan/container.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/request.hh"
#include "runtime/store/store.hh"
#include "runtime/telemetry/event.hh"

namespace berth {

/// What a pull brought.
struct PullResult {
    std::string digest;
    uint64_t bytes = 0;  ///< of layers, fetched
    std::vector<plan::PhaseTime> phases;
};

/// What to do while a pull goes on.
struct PullWatch {
    /// A line for the user: phase, bytes, rate. Called only for what takes over a second, and for warnings. None:
    /// nothing is shown.
    std::function<void(const std::string& line)> progress;
    /// The pull may draw on standard error instead, when that is a terminal.
    bool bars = false;
    /// A descriptor to look after meanwhile (-1: none), and what to do when it is readable or closed; an exception from
    /// it ends the pull.
    int descriptor = -1;
    std::function<void()> ready;
    /// What stands before the error of a pull that failed.
    std::string failure = {};
    /// Called after a pull that brought an image into the store.
    std::function<void(const PullResult& result)> fetched = {};
};

/// What is known of the image's tag beyond this node.
struct JobTag {
    std::string digest = {};   ///< what it means for the whole job
    /// without a digest: where the step's nodes agree on one (plan/frozen.hh); empty: this node finds out for itself
    std::string meeting = {};
};

struct OpenedImage {
    ContainerImage image;
    std::string digest;  ///< of the manifest; empty for a file
};

/// Opens the image `text`. A path is relative to the caller's working directory. Runs berth-pull only when the store
/// cannot answer alone. A tag of a registry means what `tag` says, and the store remembers that as its meaning. Throws
/// Error with the line of whatever failed.
OpenedImage open_image(const std::string& text, const plan::Caller& caller, const plan::Site& site,
                       const PullWatch& watch, const JobTag& tag = {});

/// Opens the image of a named container again, which must be the very one it was made of. Throws Error that says how to
/// bring it back.
OpenedImage open_image_again(const plan::ContainerRecord& record, const plan::Caller& caller, const plan::Site& site,
                             const PullWatch& watch);

/// What tells whether a file is still the one it was: "SIZE MTIME_NS INODE"; "directory" for a directory, whose content
/// nobody can tell. Throws SysError.
std::string file_identity(const std::string& path);

}  // namespace berth
