// How a pull is done.
#pragma once
#include <string>

#include "runtime/oci/registry/options.hh"
#include "runtime/pull/transfer/capacity.hh"
#include "runtime/store/collect.hh"

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

}  // namespace berth::pull
