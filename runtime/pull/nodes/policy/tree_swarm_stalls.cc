// Layers of which nothing comes: who is waited for in vain, and who goes to the registry.
#include <algorithm>
#include <utility>

#include "runtime/pull/nodes/policy/tree_swarm.hh"

namespace berth::pull::nodes {

namespace {

constexpr auto stall_interval = std::chrono::seconds(1);

/// Nodes that stand still at the same time go to the registry one after the other.
std::chrono::milliseconds stagger(unsigned rank) { return (rank % 32) * std::chrono::milliseconds(250); }

}  // namespace

/// Only what a node has more than before counts: whatever its sources say, they may never send anything.
void TreeSwarm::note_layers(unsigned place, const std::vector<LayerProgress>& layers) {
    Node& node = nodes_[place];
    bool was_silent = std::exchange(node.is_silent, false);
    node.heard = now_;
    if (layers.size() != layers_.size()) return node.awaited.clear();
    node.awaited.resize(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
        Awaited& awaited = node.awaited[i];
        bool has_more = layers[i].chunks > awaited.progress.chunks;
        if (has_more || !layers[i].is_awaited || !awaited.progress.is_awaited) awaited.moved = now_;
        awaited.progress = layers[i];
    }
    if (was_silent) take_children(place);
}

void TreeSwarm::look_for_stalls() {
    if (!is_planned_ || now_ - looked_for_stalls_ < stall_interval) return;
    looked_for_stalls_ = now_;
    for (unsigned place = 0; place < members_.size(); ++place) {
        const Node& node = nodes_[place];
        Stage stage = members_[place].stage;
        bool is_heard = stage == Stage::planned || stage == Stage::finished;
        if (is_heard && !node.is_silent && now_ - node.heard >= patience_.silence) fall_silent(place);
    }
    for (unsigned layer = 0; layer < layers_.size(); ++layer) look_at_layer(layer);
}

/// Its connection may be open, as that of a node which is stopped. Until it is heard again it is as if it had gone.
void TreeSwarm::fall_silent(unsigned place) {
    nodes_[place].is_silent = true;
    take_children(place);
    for (unsigned layer = 0; layer < layers_.size(); ++layer)
        if (layers_[layer].owner == place && needs(layer)) replace_owner(layer);
}

/// The first one that stands still brings it for all. Where there is a node that has more of it, the one that stands
/// still does not reach that, and pulls it alone.
void TreeSwarm::look_at_layer(unsigned number) {
    for (unsigned place = 0; place < members_.size() && !layers_[number].is_given_up; ++place) {
        if (!is_stalled(number, place, patience_.stall)) continue;
        if (has_more(number, place)) {
            if (!is_stalled(number, place, patience_.sent)) continue;
            leave_alone(place, number, "no byte of it has come from other nodes for a minute");
            for (unsigned child : children(number, place)) tell_role(number, child);
        } else if (!is_brought(layers_[number])) {
            return replace_owner(number);
        } else {
            // It waits with its owner: once there is something to have, it has its time to get that.
            nodes_[place].awaited[number].moved = now_;
        }
    }
}

bool TreeSwarm::is_stalled(unsigned number, unsigned place, std::chrono::milliseconds patience) const {
    const Node& node = nodes_[place];
    if (!lacks(place, number) || layers_[number].owner == place || node.is_silent || node.awaited.empty())
        return false;
    const Awaited& awaited = node.awaited[number];
    return awaited.progress.is_awaited &&
           now_ - std::max(awaited.moved, layers_[number].since) >= patience + stagger(members_[place].rank);
}

/// Its owner is heard, and has something from the registry, or has been told by it to wait.
bool TreeSwarm::is_brought(const Layer& layer) const {
    return layer.owner && !nodes_[*layer.owner].is_silent && nodes_[*layer.owner].progress.is_at_work &&
           !layer.sum;
}

/// Some other node that is heard, and sends.
bool TreeSwarm::has_more(unsigned number, unsigned place) const {
    uint32_t own = nodes_[place].awaited[number].progress.chunks;
    for (unsigned other = 0; other < members_.size(); ++other) {
        const Node& node = nodes_[other];
        if (node.layers.size() != layers_.size()) continue;
        bool has_all = (node.layers[number] & has) != 0;
        bool has_some = !node.awaited.empty() && node.awaited[number].progress.chunks > own;
        if ((has_all || has_some) && is_source(number, other, place)) return true;
    }
    return false;
}

}  // namespace berth::pull::nodes
