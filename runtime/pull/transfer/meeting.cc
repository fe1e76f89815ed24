#include "runtime/pull/transfer/meeting.hh"

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/addresses.hh"
#include "runtime/pull/share/rendezvous.hh"
#include "runtime/telemetry/event_cause.hh"

namespace berth::pull {

namespace {

/// The address that others reach this node at: of share.networks, else the first that is not the loopback's.
std::string address_of_this_node(const ShareLimits& limits) {
    if (!limits.address.empty()) return limits.address;
    for (const std::string& address : addresses_of_this_machine())
        if (!address.starts_with("127.") && address != "::1") return address;
    throw Error("this node has no address at which others reach it; see share.networks");
}

share::RendezvousSettings rendezvous_settings(const ShareLimits& limits, const Digest& image) {
    std::string node = value_in(environment_of_this_process(), "SLURMD_NODENAME");
    return {limits.rendezvous, image, address_of_this_node(limits), node.empty() ? host_name() : node};
}

}  // namespace

std::unique_ptr<share::Member> meet_others(const Options& options, const Digest& digest, const std::string& what,
                                           Meter& meter) {
    const ShareLimits& limits = options.share_limits;
    std::shared_ptr<share::Rendezvous> folder;
    if (!options.share) folder = std::make_shared<share::Rendezvous>(rendezvous_settings(limits, digest));
    return std::make_unique<share::Member>(share::MemberSettings{
        .place = folder ? folder->place() : *options.share,
        .image = digest,
        .address = limits.address,
        .first_port = limits.first_port,
        .last_port = limits.last_port,
        .rate = limits.rate,
        .stop = options.registry.stop,
        .companion = folder,
        .notice = [&meter, what](const std::string& line) { meter.note(cat(what, ": ", line)); },
        .status = [&meter](const std::optional<share::StepStatus>& step) { meter.set_step(step); }});
}

}  // namespace berth::pull
