// Layers of which nothing comes: who is waited for in vain, and who goes to the registry.
#include <algorithm>
#include <utility>

#include "runtime/pull/share/swarm.hh"

namespace berth::pull::share {

namespace {

constexpr auto stall_interval = std::chrono::seconds(1);

/// Nodes that stand still at the same time go to the registry one after the other.
std::chrono::milliseconds stagger(unsigned rank) { return (rank % 32) * std::chrono::milliseconds(250); }

}  // namespace

/// Only what a node has more than before counts: whatever its sources say, they may never send anything.
void Swarm::note_layers(unsigned place, const std::vector<LayerProgress>& layers, Time now) {
    Member& member = members_[place];
    bool was_silent = std::exchange(member.is_silent, false);
    member.heard = now;
    if (layers.size() != layers_.size()) return member.awaited.clear();
    member.awaited.resize(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
        Awaited& awaited = member.awaited[i];
        bool has_more = layers[i].chunks > awaited.progress.chunks;
        if (has_more || !layers[i].is_awaited || !awaited.progress.is_awaited) awaited.moved = now;
        awaited.progress = layers[i];
    }
    if (was_silent) take_children(place);
}

void Swarm::look_for_stalls(Time now) {
    if (!is_planned_ || now - looked_for_stalls_ < stall_interval) return;
    looked_for_stalls_ = now;
    for (unsigned place = 0; place < members_.size(); ++place) {
        const Member& member = members_[place];
        bool is_heard = member.stage == Stage::planned || member.stage == Stage::finished;
        if (is_heard && !member.is_silent && now - member.heard >= patience_.silence) fall_silent(place);
    }
    for (unsigned layer = 0; layer < layers_.size(); ++layer) look_at_layer(layer, now);
}

/// Its connection may be open, as that of a node which is stopped. Until it is heard again it is as if it had gone.
void Swarm::fall_silent(unsigned place) {
    members_[place].is_silent = true;
    take_children(place);
    for (unsigned layer = 0; layer < layers_.size(); ++layer)
        if (layers_[layer].owner == place && needs(layer)) replace_owner(layer);
}

/// The first one that stands still brings it for all. Where there is a node that has more of it, the one that stands
/// still does not reach that, and pulls it alone.
void Swarm::look_at_layer(unsigned number, Time now) {
    for (unsigned place = 0; place < members_.size() && !layers_[number].is_given_up; ++place) {
        if (!is_stalled(number, place, patience_.stall, now)) continue;
        if (has_more(number, place)) {
            if (!is_stalled(number, place, patience_.sent, now)) continue;
            leave_alone(place, number, "no byte of it has come from other nodes for a minute");
            for (unsigned child : children(number, place)) tell_role(number, child);
        } else if (!is_brought(layers_[number])) {
            return replace_owner(number);
        } else {
            // It waits with its owner: once there is something to have, it has its time to get that.
            members_[place].awaited[number].moved = now;
        }
    }
}

bool Swarm::is_stalled(unsigned number, unsigned place, std::chrono::milliseconds patience, Time now) const {
    const Member& member = members_[place];
    if (!lacks(place, number) || layers_[number].owner == place || member.is_silent || member.awaited.empty())
        return false;
    const Awaited& awaited = member.awaited[number];
    return awaited.progress.is_awaited &&
           now - std::max(awaited.moved, layers_[number].since) >= patience + stagger(member.rank);
}

/// Its owner is heard, and has something from the registry, or has been told by it to wait.
bool Swarm::is_brought(const Layer& layer) const {
    return layer.owner && !members_[*layer.owner].is_silent && members_[*layer.owner].progress.is_at_work &&
           !layer.seal;
}

/// Some other node that is heard, and sends.
bool Swarm::has_more(unsigned number, unsigned place) const {
    uint32_t own = members_[place].awaited[number].progress.chunks;
    for (unsigned other = 0; other < members_.size(); ++other) {
        const Member& member = members_[other];
        if (member.layers.size() != layers_.size()) continue;
        bool has_all = (member.layers[number] & has) != 0;
        bool has_some = !member.awaited.empty() && member.awaited[number].progress.chunks > own;
        if ((has_all || has_some) && is_source(number, other, place)) return true;
    }
    return false;
}

}  // namespace berth::pull::share
