// How a pull is done.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/config/words.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/oci/registry/options.hh"
#include "runtime/pull/agreement/agreement.hh"
#include "runtime/pull/transfer/capacity.hh"
#include "runtime/store/collect.hh"

namespace berth::pull {

using Policy = plan::PullPolicy;

struct Options {
    Policy policy = Policy::newer;
    int64_t fresh_for = 0;  ///< seconds that a tag's record may be older than an answer that says the same
    oci::RegistryOptions registry;
    std::string docker_socket = "/var/run/docker.sock";
    std::string podman_socket;  ///< empty: where systemd has it for the calling user
    PullLimits limits;
    store::KeepLimits keep;  ///< applied to the store after a pull that brought something
    /// Another machine than this one, whose image is wanted. The source is asked each time then, since the store
    /// remembers what tags and image indexes mean for this machine alone.
    std::optional<oci::Machine> machine = {};
    std::optional<MeetingPlace> share = {};  ///< where the step's nodes meet; none: this node pulls for itself
};

}  // namespace berth::pull
