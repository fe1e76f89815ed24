#include "runtime/pull/share/tracker.hh"

#include <algorithm>

#include "runtime/pull/share/swarm.hh"

namespace berth::pull::share {

Tracker::Tracker(unsigned nodes) : nodes_(nodes) {}
Tracker::~Tracker() = default;

unsigned Tracker::missing() const { return nodes_ - std::min(nodes_, static_cast<unsigned>(ranks_.size())); }

Gathering::Step Tracker::step() const { return {static_cast<unsigned>(ranks_.size()), missing()}; }

std::vector<Outgoing> Tracker::take(Connection from, const Message& message, Time now) {
    std::vector<Outgoing> out;
    bool is_known = images_.contains(from) || gathered_.contains(from);
    if (const auto* hello = std::get_if<Hello>(&message); hello != nullptr && !is_known) {
        ranks_.insert(hello->rank);
        (hello->is_lazy ? gathered_ : images_).emplace(from, hello->image);
        if (hello->is_lazy)
            gatherings_[hello->image];
        else if (std::unique_ptr<Swarm>& swarm = swarms_[hello->image]; !swarm)
            swarm = std::make_unique<Swarm>();
    }
    if (auto image = gathered_.find(from); image != gathered_.end()) {
        gatherings_[image->second].take(from, message, now, step(), out);
        return out;
    }
    if (auto image = images_.find(from); image != images_.end())
        swarms_[image->second]->take(from, message, now, missing(), out);
    return out;
}

std::vector<Outgoing> Tracker::lost(Connection node, Time now) {
    std::vector<Outgoing> out;
    if (auto image = gathered_.find(node); image != gathered_.end()) {
        Gathering& gathering = gatherings_[image->second];
        gathering.lost(node, now, step(), out);
        if (gathering.is_empty()) gatherings_.erase(image->second);
        gathered_.erase(image);
    }
    auto image = images_.find(node);
    if (image == images_.end()) return out;
    Swarm& swarm = *swarms_[image->second];
    swarm.lost(node, now, missing(), out);
    if (swarm.is_empty() && !swarm.has_documents()) swarms_.erase(image->second);
    images_.erase(image);
    return out;
}

std::vector<Outgoing> Tracker::tick(Time now) {
    std::vector<Outgoing> out;
    for (auto& [image, swarm] : swarms_) swarm->tick(now, missing(), out);
    for (auto& [image, gathering] : gatherings_) gathering.tick(now, step(), out);
    return out;
}

}  // namespace berth::pull::share
