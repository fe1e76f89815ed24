#include "runtime/pull/nodes/peer/node_link.hh"

#include "runtime/base/error.hh"
#include "runtime/host/addresses.hh"
#include "runtime/pull/nodes/peer/identity.hh"

namespace berth::pull::nodes {

NodeLink::NodeLink(const NodeSettings& settings)
    : settings_(settings),
      token_(client_token(settings.place.secret)),
      tracker_(settings.place),
      identity_(make_identity()),
      server_({.identity = identity_,
               .token = token_,
               .address = settings.address,
               .first_port = settings.first_port,
               .last_port = settings.last_port,
               .rate = settings.rate}) {}

void NodeLink::join(bool is_lazy, std::function<bool(Message*)> hear, std::function<void(const std::string&)> lost) {
    const MeetingPlace& place = settings_.place;
    std::string address = settings_.address.empty() ? tracker_.own_address() : settings_.address;
    tracker_.send(Hello{{place.node, address, server_.port(), identity_.pin},
                        place.rank,
                        settings_.image,
                        release,
                        link_speed(address),
                        is_lazy});
    listener_ = std::thread([this, hear = std::move(hear), lost = std::move(lost)] {
        try {
            for (bool goes_on = true; goes_on;) {
                auto message = tracker_.receive(std::chrono::milliseconds(250));
                goes_on = hear(message ? &*message : nullptr);
            }
        } catch (const Error& problem) {
            lost(problem.what());
        }
    });
}

void NodeLink::leave() {
    tracker_.shut_down();
    if (listener_.joinable()) listener_.join();
}

}  // namespace berth::pull::nodes
