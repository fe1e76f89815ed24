#include "runtime/pull/share/tracker.hh"

#include <algorithm>

#include "runtime/pull/share/swarm.hh"

namespace berth::pull::share {

Tracker::Tracker(unsigned nodes) : nodes_(nodes) {}
Tracker::~Tracker() = default;

unsigned Tracker::missing() const { return nodes_ - std::min(nodes_, static_cast<unsigned>(ranks_.size())); }

std::vector<Outgoing> Tracker::take(Connection from, const FromNode& message, Time now) {
    std::vector<Outgoing> out;
    if (const auto* hello = std::get_if<Hello>(&message); hello != nullptr && !images_.contains(from)) {
        ranks_.insert(hello->rank);
        images_.emplace(from, hello->image);
        std::unique_ptr<Swarm>& swarm = swarms_[hello->image];
        if (!swarm) swarm = std::make_unique<Swarm>();
    }
    if (auto image = images_.find(from); image != images_.end())
        swarms_[image->second]->take(from, message, now, missing(), out);
    return out;
}

std::vector<Outgoing> Tracker::lost(Connection node, Time now) {
    std::vector<Outgoing> out;
    auto image = images_.find(node);
    if (image == images_.end()) return out;
    Swarm& swarm = *swarms_[image->second];
    swarm.lost(node, now, missing(), out);
    if (swarm.is_empty()) swarms_.erase(image->second);
    images_.erase(image);
    return out;
}

std::vector<Outgoing> Tracker::tick(Time now) {
    std::vector<Outgoing> out;
    for (auto& [image, swarm] : swarms_) swarm->tick(now, missing(), out);
    return out;
}

}  // namespace berth::pull::share
