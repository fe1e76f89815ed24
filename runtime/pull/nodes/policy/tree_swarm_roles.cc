// What each node of a swarm is told to do.
#include <algorithm>

#include "runtime/pull/nodes/policy/tree_swarm.hh"

namespace berth::pull::nodes {

namespace {

constexpr size_t most_sources = 6;

}  // namespace

void TreeSwarm::send_rest() {
    for (size_t sent = 0; sent < at_once && !to_tell_.empty(); ++sent) {
        unsigned place = to_tell_.front();
        to_tell_.pop_front();
        if (members_[place].stage > Stage::asked) continue;
        send(place, *documents_);
        move(place, Stage::told);
    }
}

void TreeSwarm::send_plan(unsigned place) {
    nodes_[place].heard = now_;
    own_what_nobody_has(place);
    Plan out;
    std::map<unsigned, unsigned> known;
    for (unsigned layer = 0; layer < layers_.size(); ++layer)
        out.layers.push_back(role(layer, place, out.peers, known));
    send(place, std::move(out));
    for (unsigned layer = 0; layer < layers_.size(); ++layer) {
        if (!lacks(place, layer)) continue;
        if (layers_[layer].is_given_up)
            leave_alone(place, layer, layers_[layer].reason);
        else if (layers_[layer].sum && layers_[layer].owner != place)
            send(place, Done{layer, layers_[layer].sum});
    }
}

/// A node that comes late may lack what the others had, all of whom have gone since, or are not heard of.
void TreeSwarm::own_what_nobody_has(unsigned place) {
    for (unsigned number = 0; number < layers_.size(); ++number) {
        Layer& layer = layers_[number];
        bool is_owned = layer.owner && !nodes_[*layer.owner].is_silent;
        if (is_owned || layer.is_given_up || !lacks(place, number)) continue;
        layer.owner = holder(number);
        layer.since = now_;
        if (layer.owner) continue;
        layer.sum.reset();
        layer.owner = place;
    }
}

/// What `place` is to do about the layer. Its sources are added to `peers`, where `known` has their places.
LayerRole TreeSwarm::role(unsigned layer, unsigned place, std::vector<Peer>& peers,
                          std::map<unsigned, unsigned>& known) {
    LayerRole out;
    uint8_t& flags = nodes_[place].layers[layer];
    out.is_owner = layers_[layer].owner == place || (flags & (has | serves)) == (has | serves);
    if (out.is_owner || (flags & has) == 0) flags |= serves;
    if (out.is_owner || !lacks(place, layer) || layers_[layer].is_given_up) return out;
    Sources all = sources(layer, place);
    for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
        for (unsigned source : all[stripe]) {
            auto [entry, is_new] = known.emplace(source, static_cast<unsigned>(peers.size()));
            if (is_new) peers.push_back(members_[source].self);
            out.sources[stripe].push_back(entry->second);
            make_serve(layer, source);
        }
    return out;
}

/// A node that has had the layer all along serves it only when somebody needs that.
void TreeSwarm::make_serve(unsigned layer, unsigned place) {
    uint8_t& flags = nodes_[place].layers[layer];
    if ((flags & serves) != 0) return;
    flags |= serves;
    // Who is still to have its plan reads it there.
    if (members_[place].stage != Stage::ready) send(place, NewRole{layer, {}, {true, {}}});
}

TreeSwarm::Sources TreeSwarm::sources(unsigned layer, unsigned place) const {
    Sources out;
    for (unsigned stripe = 0; stripe < stripe_count; ++stripe) out[stripe] = stripe_sources(layer, stripe, place);
    return out;
}

bool TreeSwarm::is_source(unsigned layer, unsigned source, unsigned place) const {
    const Node& node = nodes_[source];
    if (source == place || !is_present(source) || node.is_distrusted || node.is_slow || node.is_silent)
        return false;
    // What it says to one it may say to that one alone.
    auto gone = layers_[layer].gone.find(source);
    if (gone != layers_[layer].gone.end() && (gone->second.contains(place) || gone->second.size() > 1)) return false;
    // Who pulls it alone serves nothing before it is whole, and nobody is to wait for a slow owner once more.
    uint8_t flags = node.layers[layer];
    bool comes_late = (flags & by_self) != 0 || layers_[layer].slow_owner == source;
    return (flags & failed) == 0 && (!comes_late || (flags & has) != 0);
}

std::vector<unsigned> TreeSwarm::stripe_sources(unsigned layer, unsigned stripe, unsigned place) const {
    std::vector<unsigned> numbers, avoid, out;
    std::optional<unsigned> own = members_[place].number, owner = layers_[layer].owner;
    if (own) {
        numbers = sources_of(plan_[layer], stripe, *own);
    } else {
        for (unsigned number = 0; number < numbered_.size(); ++number)
            if (!is_source(layer, numbered_[number], place)) avoid.push_back(number);
        // No number of the plan's.
        numbers = sources_for_late(plan_[layer], stripe, static_cast<unsigned>(numbered_.size()) + place, avoid);
    }
    for (unsigned number : numbers)
        if (unsigned source = numbered_[number]; is_source(layer, source, place) && out.size() < most_sources)
            out.push_back(source);
    // The last resort, also where it is not as good as others.
    if (owner && owner != place && std::find(out.begin(), out.end(), *owner) == out.end()) out.push_back(*owner);
    return out;
}

/// To all that lack the layer, after its owner has changed.
void TreeSwarm::tell_roles(unsigned layer) {
    for (unsigned place = 0; place < members_.size(); ++place) tell_role(layer, place);
}

void TreeSwarm::tell_role(unsigned layer, unsigned place) {
    if (!lacks(place, layer) || place == layers_[layer].owner) return;
    NewRole out{layer, {}, {}};
    std::map<unsigned, unsigned> known;
    out.role = role(layer, place, out.peers, known);
    send(place, std::move(out));
}

}  // namespace berth::pull::nodes
