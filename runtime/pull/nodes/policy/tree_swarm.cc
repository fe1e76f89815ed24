#include "runtime/pull/nodes/policy/tree_swarm.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth::pull::nodes {

namespace {

/// So long a complaint counts. On busy links each node loses a connection once in some minutes.
constexpr auto complaint_time = std::chrono::seconds(30);
/// Who has sent something so lately is reached by others.
constexpr auto sending_time = std::chrono::seconds(5);

}  // namespace

/// Somebody still lacks it.
bool TreeSwarm::needs(unsigned layer) const {
    for (unsigned place = 0; place < members_.size(); ++place)
        if (lacks(place, layer) && layers_[layer].owner != place && !nodes_[place].is_silent) return true;
    return false;
}

/// It is to have it, and has had its plan.
bool TreeSwarm::lacks(unsigned place, unsigned layer) const {
    return members_[place].stage == Stage::planned && (nodes_[place].layers[layer] & (has | by_self)) == 0;
}

void TreeSwarm::hear(unsigned place, const Message& message) {
    Stage stage = members_[place].stage;
    if (const auto* it = std::get_if<Documents>(&message)) return take_documents(place, *it);
    if (const auto* it = std::get_if<Have>(&message)) return take_have(place, *it);
    if (const auto* it = std::get_if<Alone>(&message)) return take_failed(place, *it);
    if (stage != Stage::planned && stage != Stage::finished) return;
    if (const auto* it = std::get_if<Done>(&message)) take_done(place, *it);
    if (const auto* it = std::get_if<Complaint>(&message)) take_complaint(place, *it);
    if (const auto* it = std::get_if<Progress>(&message)) take_progress(place, *it);
    if (std::holds_alternative<Finished>(message)) take_finished(place);
}

void TreeSwarm::look() {
    look_for_stalls();
    bool is_late = !documents_ && count({Stage::asked}) > 0 && count({Stage::waiting}) > 0;
    if (!is_late || now_ - asked_ < patience_.fetch) return;
    asked_ = now_;
    ask_next();
}

void TreeSwarm::come(unsigned place) {
    if (!hopeless_.empty()) return leave_alone(place, hopeless_);
    if (documents_)
        to_tell_.push_back(place);
    else if (count({Stage::asked}) == 0) {
        asked_ = now_;
        ask_for_documents(place);
    }
}

/// But for the documents.
void TreeSwarm::restart() {
    Swarm::restart();
    nodes_.clear();
    to_tell_.clear();
    plan_.clear();
    layers_.clear();
    failed_fetches_ = 0;
    first_have_ = {};
    best_median_ = 0;
}

void TreeSwarm::left(unsigned place, Stage before) {
    if (before == Stage::asked && !documents_) ask_next();
    for (unsigned layer = 0; layer < layers_.size(); ++layer)
        if (layers_[layer].owner == place) replace_owner(layer);
    if (is_planned_) take_children(place);
}

void TreeSwarm::ask_for_documents(unsigned place) {
    nodes_[place].was_asked = true;
    move(place, Stage::asked);
    send(place, Documents{});
}

/// Another node is to bring the documents; where there is none, those who wait do not wait any longer.
void TreeSwarm::ask_next() {
    for (unsigned place = 0; place < members_.size(); ++place)
        if (members_[place].stage == Stage::waiting && !nodes_[place].was_asked) return ask_for_documents(place);
    if (count({Stage::asked}) > 0) return;
    for (unsigned place = 0; place < members_.size(); ++place)
        if (members_[place].stage == Stage::waiting) leave_alone(place, "no other node has the image's manifest");
}

void TreeSwarm::take_documents(unsigned place, const Documents& documents) {
    if (documents_ || members_[place].stage != Stage::asked) return;
    documents_ = documents;
    for (unsigned other = 0; other < members_.size(); ++other) {
        if (members_[other].stage > Stage::asked) continue;
        if (other == place)
            move(other, Stage::told);
        else
            to_tell_.push_back(other);
    }
}

void TreeSwarm::documents_failed(unsigned place, const std::string& reason) {
    move(place, Stage::waiting);
    if (++failed_fetches_ < 2) return ask_next();
    hopeless_ = cat("two nodes could not bring the image's manifest: ", reason);
    for (unsigned other = 0; other < members_.size(); ++other)
        if (members_[other].stage <= Stage::asked) leave_alone(other, hopeless_);
}

void TreeSwarm::take_have(unsigned place, const Have& have) {
    if (members_[place].stage != Stage::told || have.has.size() != have.sizes.size()) return;
    if (first_have_ == Time{}) {
        first_have_ = now_;
        layers_.resize(have.sizes.size());
        for (size_t i = 0; i < layers_.size(); ++i) layers_[i].size = have.sizes[i];
    }
    last_arrival_ = now_;
    bool is_same = std::equal(have.sizes.begin(), have.sizes.end(), layers_.begin(), layers_.end(),
                              [](uint64_t size, const Layer& layer) { return size == layer.size; });
    if (!is_same) return leave_alone(place, "the image's layers are others here (a machine of another kind)");
    for (size_t i = 0; i < layers_.size(); ++i) {
        nodes_[place].layers.push_back(have.has[i] ? uint8_t{has} : uint8_t{0});
        if (!have.has[i]) nodes_[place].total += layers_[i].size;
    }
    move(place, Stage::ready);
    if (is_planned_) to_plan_.push_back(place);
}

bool TreeSwarm::is_time_to_plan(Step step) const {
    if (now_ - first_have_ >= patience_.longest) return true;
    size_t outstanding = count({Stage::waiting, Stage::asked, Stage::told});
    if (outstanding > 0) return false;
    auto quiet = count({Stage::ready}) == 1 ? patience_.alone : patience_.quiet;
    return step.missing == 0 || now_ - last_arrival_ >= quiet;
}

/// The median of the links that are known, in Mbit/s; 0 when none is.
uint64_t TreeSwarm::usual_link() const {
    std::vector<uint64_t> links;
    for (unsigned place : numbered_)
        if (members_[place].link > 0) links.push_back(members_[place].link);
    if (links.empty()) return 0;
    std::ranges::sort(links);
    return links[links.size() / 2];
}

void TreeSwarm::make_plan() {
    std::vector<PlannedNode> nodes;
    std::vector<uint64_t> sizes;
    for (const Layer& layer : layers_) sizes.push_back(layer.size);
    uint64_t link = usual_link();
    for (unsigned place : numbered_) {
        PlannedNode node;
        node.is_slow = members_[place].link > 0 && members_[place].link < link / 2;
        for (uint8_t flags : nodes_[place].layers) node.has.push_back((flags & has) != 0);
        nodes.push_back(std::move(node));
    }
    // Those that only serve come last, so that their plan says for whom.
    std::ranges::stable_partition(to_plan_, [&](unsigned place) {
        return std::ranges::count(nodes[*members_[place].number].has, false) > 0;
    });
    plan_ = plan_layers(nodes, sizes);
    for (unsigned layer = 0; layer < layers_.size(); ++layer) {
        const LayerPlan& plan = plan_[layer];
        bool is_needed = plan.from_registry || !plan.order[0].empty();
        if (is_needed && !plan.seeds.empty()) layers_[layer].owner = numbered_[plan.seeds[0]];
    }
}

void TreeSwarm::take_done(unsigned place, const Done& done) {
    if (done.layer >= layers_.size()) return;
    Layer& layer = layers_[done.layer];
    layer.gone.erase(place);
    nodes_[place].layers[done.layer] |= has | serves;
    if (!done.sum) return;
    if (layer.sum) {
        if (layer.sum->chunks == done.sum->chunks) return;
        // Its file is another one than that of the first, with which it must not be mixed.
        nodes_[place].layers[done.layer] |= failed;
        return layer.owner == place ? replace_owner(done.layer) : tell_roles(done.layer);
    }
    layer.sum = done.sum;
    layer.sum->owner = members_[place].self.node;
    for (unsigned other = 0; other < members_.size(); ++other)
        if (other != place && lacks(other, done.layer)) send(other, Done{done.layer, layer.sum});
}

void TreeSwarm::take_finished(unsigned place) {
    if (members_[place].stage != Stage::planned) return;
    // What it has pulled as if there was nobody else it does not serve.
    for (uint8_t& flags : nodes_[place].layers)
        if ((flags & by_self) == 0) flags |= has;
    finish(place);
}

void TreeSwarm::take_failed(unsigned place, const Alone& message) {
    Stage stage = members_[place].stage;
    if (!message.layer && stage == Stage::asked && !documents_) return documents_failed(place, message.reason);
    if (!message.layer) {
        leave(place);
        return leave_alone(place, message.reason);
    }
    if (stage == Stage::planned && *message.layer < layers_.size()) layer_failed(place, *message.layer, message.reason);
}

void TreeSwarm::layer_failed(unsigned place, unsigned number, const std::string& reason) {
    Layer& layer = layers_[number];
    bool had = (nodes_[place].layers[number] & has) != 0;
    if (layer.owner != place) {
        bool owner_is_bad = layer.owner && nodes_[*layer.owner].is_distrusted;
        if (owner_is_bad) return replace_owner(number);
        leave_alone(place, number, reason);
        // It serves nothing of it before it has it whole.
        for (unsigned child : children(number, place)) tell_role(number, child);
        return;
    }
    nodes_[place].layers[number] = static_cast<uint8_t>((nodes_[place].layers[number] & ~has) | failed);
    layer.reason = reason;
    if (!had && ++layer.failures >= 2) return give_up(number);
    replace_owner(number);
}

void TreeSwarm::take_complaint(unsigned place, const Complaint& complaint) {
    if (complaint.layer >= layers_.size()) return;
    // Of one that others reach: who does not has more sources, and the layer need not be brought again.
    auto sends = [&](unsigned other) { return now_ - nodes_[other].has_sent < sending_time; };
    for (unsigned other = 0; other < members_.size(); ++other) {
        if (members_[other].self.key != complaint.key || other == place) continue;
        if (complaint.fault == Fault::gone) {
            if (layers_[complaint.layer].gone[other].insert(place).second) tell_role(complaint.layer, place);
            continue;
        }
        if (complaint.fault == Fault::silent && sends(other)) continue;
        std::map<unsigned, Time>& who = layers_[complaint.layer].complaints[other];
        who[place] = now_;
        auto counts = [&](const auto& one) { return now_ - one.second <= complaint_time; };
        if (std::ranges::count_if(who, counts) >= 2 && !nodes_[other].is_distrusted) distrust(other);
    }
}

/// Nobody gets what it brings.
void TreeSwarm::distrust(unsigned place) {
    nodes_[place].is_distrusted = true;
    take_children(place);
    for (unsigned layer = 0; layer < layers_.size(); ++layer)
        if (layers_[layer].owner == place && needs(layer)) replace_owner(layer);
}

/// Another one who has it, else one who brings it again. One that nobody reaches comes behind those who can bring it.
void TreeSwarm::replace_owner(unsigned number) {
    Layer& layer = layers_[number];
    std::optional<unsigned> before = layer.owner, has_it = holder(number), can_bring = next_owner(number);
    auto is_trusted = [&](std::optional<unsigned> place) { return place && !nodes_[*place].is_distrusted; };
    bool is_brought = can_bring && !is_trusted(has_it) && (is_trusted(can_bring) || !has_it);
    layer.owner = is_brought ? can_bring : has_it;
    if (is_brought) layer.sum.reset();
    layer.since = now_;
    if (layer.owner && layer.owner != before) {
        layer.gone.erase(*layer.owner);
        nodes_[*layer.owner].layers[number] |= serves;
        // Who is still to have its plan reads it there.
        if (members_[*layer.owner].stage != Stage::ready) send(*layer.owner, NewRole{number, {}, {true, {}}});
    }
    // Those that are left have failed, if there are any.
    if (!layer.owner) return give_up(number);
    tell_roles(number);
}

std::optional<unsigned> TreeSwarm::holder(unsigned layer) const {
    for (bool also_distrusted : {false, true})
        for (unsigned place = 0; place < members_.size(); ++place) {
            const Node& node = nodes_[place];
            Stage stage = members_[place].stage;
            bool is_there = stage >= Stage::ready && stage <= Stage::finished && !node.is_silent;
            if (is_there && (node.layers[layer] & (has | failed)) == has && place != layers_[layer].owner &&
                (also_distrusted || !node.is_distrusted))
                return place;
        }
    return std::nullopt;
}

/// Among those that lack the layer: who has the least to bring, and is neither slow nor distrusted if that can be.
std::optional<unsigned> TreeSwarm::next_owner(unsigned number) const {
    std::map<unsigned, uint64_t> load;
    for (const Layer& layer : layers_)
        if (layer.owner && !layer.sum) load[*layer.owner] += layer.size;
    std::optional<unsigned> best;
    auto worth = [&](unsigned place) {
        const Node& node = nodes_[place];
        bool is_slow = node.rate > 0 && node.rate < status_.median / 2;
        auto found = load.find(place);
        return std::pair(node.is_distrusted || is_slow, found == load.end() ? 0 : found->second);
    };
    for (unsigned place = 0; place < members_.size(); ++place)
        if (lacks(place, number) && (nodes_[place].layers[number] & failed) == 0 && place != layers_[number].owner &&
            !nodes_[place].is_silent && (!best || worth(place) < worth(*best)))
            best = place;
    return best;
}

void TreeSwarm::give_up(unsigned number) {
    Layer& layer = layers_[number];
    layer.owner.reset();
    if (layer.reason.empty()) layer.reason = "no other node can bring it";
    for (unsigned place = 0; place < members_.size(); ++place)
        if (lacks(place, number)) {
            leave_alone(place, number, layer.reason);
            layer.is_given_up = true;
        }
}

void TreeSwarm::leave_alone(unsigned place, unsigned layer, const std::string& reason) {
    nodes_[place].layers[layer] |= by_self;
    send(place, Alone{layer, reason});
}

}  // namespace berth::pull::nodes
