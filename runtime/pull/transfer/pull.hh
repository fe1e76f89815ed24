// Brings an image into the store: asks its source what the reference means, fetches what is missing, and publishes it
// whole.
#pragma once
#include <functional>
#include <string>

#include "runtime/oci/registry/registry.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/pull/transfer/capacity.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// When the registry is asked. newer: one HEAD for a tag, nothing for a digest that is here, and what is here when the
/// registry cannot answer. missing: only when the image is not here. always: always, and its silence is an error.
/// never: not at all. What is on this node already (archives, layouts, daemons) is not the matter of a policy: it is
/// read when it is not known, or with always.
enum class Policy { newer, missing, always, never };

/// Throws Error for anything but the four words.
Policy parse_policy(const std::string& text);

struct Options {
    Policy policy = Policy::newer;
    oci::RegistryOptions registry;
    std::string docker_socket = "/var/run/docker.sock";
    std::string podman_socket;  ///< empty: where systemd has it for the calling user
    PullLimits limits;
    store::KeepLimits keep;  ///< applied to the store after a pull that brought something
};

/// Takes a line about what is being done; called from another thread, and no more after the function it was given to.
using Progress = std::function<void(const std::string&)>;

/// Returns the digest under which the store now has the image: that of the reference, or what its tag means (which may
/// be an image index). Throws Error, with nothing published but complete layers.
std::string pull(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter);
/// The same with the lines that suit a log.
std::string pull(const store::Store& store, const plan::Reference& reference, const Options& options,
                 const Progress& progress);

/// What the image's name means by the policy, without bringing it: the digest of the store, of the registry, or the
/// store's where the registry cannot answer, with a warning. Throws Error.
std::string digest_now(const store::Store& store, const plan::Reference& reference, const Options& options,
                       Meter& meter);

}  // namespace berth::pull
