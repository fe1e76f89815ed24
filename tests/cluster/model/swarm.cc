#include "tests/cluster/model/swarm.hh"

#include <algorithm>

namespace berth::cluster_model {
namespace {

namespace nodes = berth::pull::nodes;

/// Chunks on their way to a receiver from one source: the next one is there when one is done.
constexpr uint32_t window = 2;

uint32_t chunks_of(uint64_t size, uint64_t chunk) {
    return static_cast<uint32_t>(std::max<uint64_t>(1, (size + chunk - 1) / chunk));
}

}  // namespace

Swarm::Swarm(const Setting& setting)
    : setting_(setting),
      registry_(setting.nodes),
      stripes_(setting.shape == Shape::two_trees ? nodes::stripe_count : 1) {
    make_nodes();
    make_plan();
    make_flows();
}

void Swarm::make_nodes() {
    nodes_.resize(registry_ + 1);
    for (unsigned node = 0; node < registry_; ++node) {
        bool slow = node < setting_.slow.size() && setting_.slow[node];
        nodes_[node].up = nodes_[node].down = setting_.link * (slow ? setting_.slow_rate : 1);
    }
    nodes_[registry_].up = setting_.registry;
    for (auto [node, when] : setting_.late) nodes_[node].is_here = false;
}

void Swarm::make_plan() {
    std::vector<nodes::PlannedNode> planned(setting_.nodes - setting_.late.size());
    for (unsigned node = 0; node < planned.size(); ++node) {
        planned[node].has.assign(setting_.layers.size(), false);
        planned[node].is_slow = setting_.slow_known && node < setting_.slow.size() && setting_.slow[node];
    }
    plan_ = nodes::plan_layers(planned, setting_.layers);
    bool is_chain = setting_.shape == Shape::chain;
    for (const nodes::LayerPlan& layer : plan_) owner_.push_back(is_chain ? 0 : layer.seeds.front());
}

void Swarm::make_flows() {
    flows_.resize(setting_.layers.size() * stripes_ * (registry_ + 1));
    for (unsigned layer = 0; layer < setting_.layers.size(); ++layer) {
        uint32_t chunks = chunks_of(setting_.layers[layer], setting_.chunk);
        size_of_.push_back(static_cast<double>(setting_.layers[layer]) / chunks);
        for (unsigned stripe = 0; stripe < stripes_; ++stripe)
            for (unsigned node = 0; node < registry_; ++node) {
                uint32_t total = (chunks + stripes_ - 1 - stripe) / stripes_;
                flows_[index(layer, stripe, node)].total = total;
                nodes_[node].missing += total;
            }
    }
}

Outcome Swarm::run() {
    out_.done.assign(registry_, -1);
    for (unsigned node = 0; node < registry_; ++node) {
        unfinished_ += nodes_[node].missing > 0;
        if (nodes_[node].missing == 0) out_.done[node] = 0;
        if (nodes_[node].is_here) join(node);
    }
    for (auto [node, when] : setting_.late) at(when, What::joins, node);
    for (auto [node, when] : setting_.lost) at(when, What::is_lost, node);
    at(1, What::look, 0);
    for (; !events_.empty() && unfinished_ > 0; ++out_.events) {
        Event event = events_.top();
        events_.pop();
        now_ = event.time;
        act(event);
    }
    return out_;
}

void Swarm::at(double time, What what, unsigned of, unsigned turn) { events_.push({time, made_++, what, of, turn}); }

void Swarm::act(const Event& event) {
    switch (event.what) {
    case What::sent:
        nodes_[event.of].is_sending = false;
        return start_sending(event.of);
    case What::arrived:
        if (flows_[event.of].turn == event.turn) arrive(event.of);
        return;
    case What::joins:
        nodes_[event.of].is_here = true;
        return join(event.of);
    case What::is_lost: return lose(event.of);
    case What::times_out:
        if (flows_[event.of].turn == event.turn) move(event.of);
        return;
    case What::look: return look();
    }
}

void Swarm::join(unsigned node) {
    for (unsigned layer = 0; layer < setting_.layers.size(); ++layer)
        for (unsigned stripe = 0; stripe < stripes_; ++stripe) {
            unsigned flow = index(layer, stripe, node);
            if (is_owner(layer, node))
                connect(flow, registry_);
            else if (flows_[flow].total > 0)
                move(flow);
        }
}

uint32_t Swarm::available(const Flow& flow, unsigned number) const {
    return flow.source == registry_ ? flow.total : flows_[number - node_of(number) + flow.source].got;
}

bool Swarm::can_send(unsigned number) const {
    const Flow& flow = flows_[number];
    if (flow.source == nobody || flow.flying >= window) return false;
    return flow.got + flow.flying < available(flow, number) + flow.again;
}

/// Queues the flow at its source if there is a chunk for it.
void Swarm::offer(unsigned number) {
    Flow& flow = flows_[number];
    if (flow.is_queued || !can_send(number)) return;
    flow.is_queued = true;
    nodes_[flow.source].waiting.push_back(number);
    start_sending(flow.source);
}

void Swarm::start_sending(unsigned node) {
    Node& from = nodes_[node];
    while (!from.is_sending && !from.is_lost && !from.waiting.empty()) {
        unsigned number = from.waiting.front();
        from.waiting.pop_front();
        if (flows_[number].source != node) continue;  // it has moved
        flows_[number].is_queued = false;
        if (can_send(number)) send_chunk(node, number);
    }
}

void Swarm::send_chunk(unsigned from, unsigned number) {
    Flow& flow = flows_[number];
    Node& to = nodes_[node_of(number)];
    double size = size_of_[layer_of(number)];
    double sent = now_ + size / nodes_[from].up;
    nodes_[from].is_sending = true;
    at(sent, What::sent, from);
    // The receiver's link takes one after the other; a slow sender does not keep it from others.
    to.down_free = std::max(to.down_free, now_ + setting_.latency) + size / to.down;
    double arrived = std::max(to.down_free, sent + setting_.latency);
    if (from == registry_) {
        out_.from_registry += static_cast<uint64_t>(size);
        if (setting_.conversion > 0)
            arrived = to.conversion_free = std::max(to.conversion_free, arrived) + size / setting_.conversion;
    }
    ++flow.flying;
    at(arrived, What::arrived, number, flow.turn);
    offer(number);
}

void Swarm::arrive(unsigned number) {
    Flow& flow = flows_[number];
    Node& node = nodes_[node_of(number)];
    --flow.flying;
    if (flow.again > 0) {
        --flow.again;
        return offer(number);
    }
    ++flow.got;
    ++node.got;
    if (--node.missing == 0) {
        out_.done[node_of(number)] = now_;
        --unfinished_;
    }
    offer(number);
    for (unsigned child = flow.first_child; child != nobody; child = flows_[child].next_child) offer(child);
}

}  // namespace berth::cluster_model
