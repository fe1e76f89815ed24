// An image that can be started, and what to do while it is brought.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/child.hh"
#include "runtime/base/digest.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/telemetry/event.hh"

namespace berth {

/// What a pull brought.
struct PullResult {
    std::optional<Digest> digest;
    uint64_t bytes = 0;  ///< of layers, fetched
    uint64_t peer_bytes = 0;  ///< those of them that came from other nodes of the step
    uint64_t published_bytes = 0;  ///< those of layers that were not converted
    std::string refused;           ///< why one was that need not have been
    std::optional<Digest> early;   ///< the manifest of an image whose layers are to come
    std::string signer, rule;      ///< of that
    std::vector<std::string> refused_logins;  ///< see PullWatch
    int lifeline = -1;             ///< of the pull that brings them, which PullWatch::keep has; see ChunkMap
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
    std::function<void()> ready = {};
    /// What stands before the error of a pull that failed.
    std::string failure = {};
    /// Takes a pull that has brought its image and goes on to serve the other nodes of its step, or to prove layers.
    /// Without it, pulls do not.
    std::function<void(Child pull)> keep = {};
    /// The image may start before its layers are here, by store.start; the pull that `keep` takes brings them.
    bool early = false;
    /// Whether nobody needs the container any more, for its start that waits for something of such an image.
    std::function<bool()> over = {};
    /// The value of a variable of the user's, for a password in a file of logins that is one. Without it, those of this
    /// process count.
    std::function<std::optional<std::string>(const std::string& name)> variable = {};
    /// Which logins registries have refused in this step, as words of berth-pull.
    std::vector<std::string> refused_logins = {};
    /// "JOB.STEP", for the events of a pull that goes on; empty outside of steps.
    std::string job = {};
    /// Called after a pull that brought an image into the store.
    std::function<void(const PullResult& result)> fetched = {};
};

/// The pull that brings the layers of an image which has been opened before they were here.
struct EarlyPull {
    int lifeline = -1;                   ///< see PullResult; whose end is that of the pull that PullWatch::keep has
    std::vector<std::string> arguments;  ///< of berth-pull, for one that goes on with it
};

struct OpenedImage {
    ContainerImage image;
    std::optional<Digest> digest;  ///< of the manifest; none for a file
    std::string signer = {};       ///< by whose signature it may run, where a site has a signature policy
    std::string rule = {};         ///< and by which rule of the policy
    std::optional<EarlyPull> early = {};
    std::string note = {};  ///< for the events: what was found wrong with unpacked files since the last start
};

}  // namespace berth
