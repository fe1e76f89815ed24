// How a pull is done.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/config/words.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/oci/registry/options.hh"
#include "runtime/pull/image/capacity.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "runtime/pull/nodes/protocol/messages.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/collect.hh"

namespace berth::pull {

using Policy = plan::PullPolicy;

/// What a site says about the nodes of a step that share a pull.
struct ShareLimits {
    std::string address;      ///< by which other nodes reach this one; empty: that of the way to srun
    uint16_t first_port = 0;  ///< to serve at; 0: any
    uint16_t last_port = 0;
    uint64_t rate = 0;        ///< bytes a second that are sent at most; 0: no limit
};

/// Whose signatures a site wants.
struct SignatureRules {
    std::string policy;    ///< file of the form of containers-policy.json(5); empty: no signature is wanted
    bool unnamed = false;  ///< bundles that name no image count
    std::string origin;    ///< of the setting, for messages
};

/// Where layers are found in the form in which Berth runs them.
struct ArtifactRules {
    std::string repository;  ///< REGISTRY/NAME, or plan::artifacts_beside_images; empty: nowhere
    /// The options for a repository, its login among them.
    std::function<oci::RegistryOptions(const plan::Reference& repository)> registry = {};
};

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
    /// Where the nodes of this step share what they pull; nothing outside of steps, and where sites do not want it.
    std::optional<MeetingPlace> share = {};
    ShareLimits share_limits = {};
    SignatureRules signatures = {};
    ArtifactRules artifacts = {};
    /// Published layers may be used before they are proved, where a key of the site's policy has signed them. Whoever
    /// sets it calls prove() afterwards.
    bool prove_later = false;
    /// With it, the image need not be here when it starts, see early.hh. Whoever sets it calls complete_early()
    /// afterwards.
    bool early = false;
    /// The image's documents as far as they are at hand; what is not is asked for.
    nodes::DocumentList known = {};
    std::chrono::seconds stall_time{600};  ///< how long what comes later may stand still
    uint64_t fetch_rate = 0;  ///< bytes a second of what comes later and nobody waits for; 0: no limit
};

}  // namespace berth::pull
