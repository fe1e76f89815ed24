#include "runtime/pull/nodes/tracker/tracker.hh"

#include <algorithm>

#include "runtime/pull/nodes/policy/lazy_swarm.hh"
#include "runtime/pull/nodes/policy/tree_swarm.hh"

namespace berth::pull::nodes {

Tracker::Tracker(unsigned nodes) : nodes_(nodes) {}

Swarm::Step Tracker::step() const {
    auto seen = static_cast<unsigned>(ranks_.size());
    return {seen, nodes_ - std::min(nodes_, seen)};
}

std::vector<Outgoing> Tracker::take(Connection from, const Message& message, Time now) {
    std::vector<Outgoing> out;
    if (const auto* hello = std::get_if<Hello>(&message); hello != nullptr && !wanted_.contains(from)) {
        ranks_.insert(hello->rank);
        Wanted wanted{hello->image, hello->is_lazy};
        wanted_.emplace(from, wanted);
        std::unique_ptr<Swarm>& swarm = swarms_[wanted];
        if (!swarm && hello->is_lazy) swarm = std::make_unique<LazySwarm>();
        if (!swarm) swarm = std::make_unique<TreeSwarm>();
    }
    if (auto wanted = wanted_.find(from); wanted != wanted_.end())
        swarms_[wanted->second]->take(from, message, now, step(), out);
    return out;
}

std::vector<Outgoing> Tracker::lost(Connection node, Time now) {
    std::vector<Outgoing> out;
    auto wanted = wanted_.find(node);
    if (wanted == wanted_.end()) return out;
    Swarm& swarm = *swarms_[wanted->second];
    swarm.lost(node, now, step(), out);
    if (swarm.is_empty() && !swarm.is_kept()) swarms_.erase(wanted->second);
    wanted_.erase(wanted);
    return out;
}

std::vector<Outgoing> Tracker::tick(Time now) {
    std::vector<Outgoing> out;
    for (auto& [wanted, swarm] : swarms_) swarm->tick(now, step(), out);
    return out;
}

}  // namespace berth::pull::nodes
