// Who takes from whom, and what changes that: slow nodes, lost ones, late ones.
#include <algorithm>

#include "tests/cluster/model/swarm.hh"

namespace berth::cluster_model {
namespace {

namespace nodes = berth::pull::nodes;

bool contains(const std::vector<unsigned>& among, unsigned one) {
    return std::find(among.begin(), among.end(), one) != among.end();
}

/// 0 of none.
double median(std::vector<double> values) {
    if (values.empty()) return 0;
    auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

void Swarm::disconnect(unsigned number) {
    Flow& flow = flows_[number];
    if (flow.source != nobody) {
        unsigned* link = &flows_[number - node_of(number) + flow.source].first_child;
        while (*link != number) link = &flows_[*link].next_child;
        *link = flow.next_child;
    }
    flow.source = flow.next_child = nobody;
    flow.flying = 0;
    flow.is_queued = false;
    ++flow.turn;
}

void Swarm::connect(unsigned number, unsigned source) {
    disconnect(number);
    Flow& flow = flows_[number];
    Flow& from = flows_[number - node_of(number) + source];
    flow.source = source;
    flow.next_child = from.first_child;
    from.first_child = number;
    flow.since = now_;
    offer(number);
}

std::vector<unsigned> Swarm::sources(unsigned number) const {
    unsigned node = node_of(number), owner = owner_[layer_of(number)];
    if (setting_.shape == Shape::each_for_itself) return {registry_};
    if (setting_.shape == Shape::chain) {
        std::vector<unsigned> out;
        for (unsigned i = 1; i <= 3 && i <= node; ++i) out.push_back(node - i);
        if (!contains(out, owner)) out.push_back(owner);
        return out;
    }
    constexpr unsigned all = ~0U;
    std::vector<unsigned> out = nodes::sources_of(plan_[layer_of(number)], stripe_of(number), node, all);
    if (!contains(out, owner)) out.push_back(owner);
    return out;
}

std::vector<unsigned> Swarm::late_sources(unsigned number) const {
    if (setting_.shape != Shape::two_trees) return {};
    return nodes::sources_for_late(plan_[layer_of(number)], stripe_of(number), node_of(number),
                                   flows_[number].tried, 6);
}

/// To the first source that can be had and was not tried. False when there is none: the flow stays.
bool Swarm::move(unsigned number) {
    Flow& flow = flows_[number];
    bool is_first = flow.source == nobody && flow.tried.empty();
    bool is_planned = node_of(number) < setting_.nodes - setting_.late.size();
    if (flow.source != nobody) flow.tried.push_back(flow.source);
    std::vector<unsigned> all = sources(number), late = late_sources(number);
    all.insert(is_first && !is_planned ? all.begin() : all.end(), late.begin(), late.end());
    for (unsigned source : all) {
        const Node& node = nodes_[source];
        bool can_serve = !node.is_lost && node.is_here && (!node.is_left || source == owner_[layer_of(number)]);
        if (!can_serve || source == node_of(number) || contains(flow.tried, source)) continue;
        out_.moves += !is_first;
        connect(number, source);
        return true;
    }
    flow.tried.clear();
    return false;
}

std::vector<unsigned> Swarm::children(unsigned node) const {
    std::vector<unsigned> out;
    for (unsigned flow = node; flow < flows_.size(); flow += registry_ + 1)
        for (unsigned child = flows_[flow].first_child; child != nobody; child = flows_[child].next_child)
            out.push_back(child);
    return out;
}

void Swarm::lose(unsigned node) {
    Node& lost = nodes_[node];
    lost.is_lost = true;
    if (lost.missing > 0) --unfinished_;
    lost.missing = 0;
    out_.done[node] = -1;
    for (unsigned flow = node; flow < flows_.size(); flow += registry_ + 1) disconnect(flow);
    for (unsigned layer = 0; layer < owner_.size(); ++layer)
        if (is_owner(layer, node)) replace_owner(layer);
    for (unsigned child : children(node)) at(now_ + setting_.timeout, What::times_out, child, flows_[child].turn);
}

/// A node that has the layer whole, else the first of the tree, which brings it from the registry from its beginning.
void Swarm::replace_owner(unsigned layer) {
    auto has_whole = [&](unsigned node) {
        for (unsigned stripe = 0; stripe < stripes_; ++stripe) {
            const Flow& flow = flows_[index(layer, stripe, node)];
            if (nodes_[node].is_lost || flow.got < flow.total) return false;
        }
        return true;
    };
    const std::vector<unsigned>& order = plan_[layer].order[0];
    auto can = [&](unsigned node) { return !nodes_[node].is_lost && !nodes_[node].is_left && !is_owner(layer, node); };
    auto next = std::find_if(order.begin(), order.end(), has_whole);
    bool is_whole = next != order.end();
    if (!is_whole) next = std::find_if(order.begin(), order.end(), can);
    if (next == order.end()) return;
    owner_[layer] = *next;
    for (unsigned stripe = 0; stripe < stripes_ && !is_whole; ++stripe) {
        unsigned flow = index(layer, stripe, *next);
        connect(flow, registry_);
        flows_[flow].again = flows_[flow].got;
    }
}

void Swarm::look() {
    if (setting_.watch == Watch::node) look_at_nodes();
    bool is_still = std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.got == node.before; });
    quiet_ = is_still ? quiet_ + 1 : 0;
    if (quiet_ > 30) unfinished_ = 0;  // nothing will come any more
    for (Flow& flow : flows_) flow.before = flow.got;
    for (Node& node : nodes_) node.before = node.got;
    at(now_ + 1, What::look, 0);
}

/// Whether a source has more than the node has, and more than can be on its way: else the node waits for others.
bool Swarm::lags(unsigned node) const {
    for (unsigned number = node; number < flows_.size(); number += registry_ + 1)
        if (lag(number) > 4) return true;
    return false;
}

/// Chunks that another node has for it.
uint32_t Swarm::lag(unsigned number) const {
    const Flow& flow = flows_[number];
    if (flow.source == nobody || flow.source == registry_) return 0;
    return available(flow, number) - std::min(flow.got, available(flow, number));
}

double Swarm::whole_lag(unsigned node) const {
    double out = 0;
    for (unsigned number = node; number < flows_.size(); number += registry_ + 1) out += lag(number);
    return out;
}

void Swarm::look_at_nodes() {
    std::vector<double> rates, whole_lags;
    std::vector<unsigned> there, slow;
    for (unsigned node = 0; node < registry_; ++node) {
        if (nodes_[node].missing == 0 || !nodes_[node].is_here) continue;
        there.push_back(node);
        rates.push_back(static_cast<double>(nodes_[node].got - nodes_[node].before));
        whole_lags.push_back(whole_lag(node));
    }
    double usual = median(rates), usual_lag = median(whole_lags);
    best_usual_ = std::max(best_usual_, usual);
    for (size_t i = 0; i < there.size(); ++i) {
        Node& one = nodes_[there[i]];
        if (!one.is_left && rates[i] < usual / 2 && lags(there[i])) slow.push_back(there[i]);
        // As in the product (tree_swarm_status.cc).
        bool holds_up = rates[i] < best_usual_ / 2 && whole_lags[i] > std::max(best_usual_, 4 * usual_lag);
        one.holding_looks = holds_up ? one.holding_looks + 1 : 0;
    }
    for (unsigned node : slow) nodes_[node].is_left = true;
    for (unsigned node : there)
        if (nodes_[node].holding_looks >= 2) take_over_from(node);
    for (unsigned node : slow)
        for (unsigned child : children(node)) move(child);
}

/// What a slow node brings is brought by another one too, as in the product. The slow one goes on, and nobody takes
/// from it.
void Swarm::take_over_from(unsigned node) {
    constexpr double worth_a_request = 5;  // seconds
    auto chunks = [&](unsigned layer, bool here) {
        double out = 0;
        for (unsigned stripe = 0; stripe < stripes_; ++stripe) {
            const Flow& flow = flows_[index(layer, stripe, node)];
            out += here ? flow.got : flow.total;
        }
        return out;
    };
    double all = 0, brought = 0;
    for (unsigned layer = 0; layer < owner_.size(); ++layer)
        if (is_owner(layer, node)) all += chunks(layer, false), brought += chunks(layer, true);
    double left = (all - brought) * now_ / std::max(1.0, brought);
    for (unsigned layer = 0; layer < owner_.size(); ++layer) {
        if (!is_owner(layer, node) || chunks(layer, true) == chunks(layer, false)) continue;
        double anew = chunks(layer, false) / std::max(1.0, best_usual_);
        if (left <= 2 * anew || left <= anew + worth_a_request) continue;
        nodes_[node].is_left = true;
        replace_owner(layer);
        for (unsigned child : children(node))
            if (layer_of(child) == layer) move(child);
    }
}

}  // namespace berth::cluster_model
