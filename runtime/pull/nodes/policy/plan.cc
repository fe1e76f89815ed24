#include "runtime/pull/nodes/policy/plan.hh"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <queue>
#include <random>
#include <utility>

namespace berth::pull::nodes {
namespace {

using Nodes = std::vector<unsigned>;

bool has_layer(const PlannedNode& node, unsigned layer) { return layer < node.has.size() && node.has[layer]; }

/// Those of `nodes` that are slow, or those that are not.
Nodes by_speed(const std::vector<PlannedNode>& nodes, const Nodes& among, bool slow) {
    Nodes out;
    std::copy_if(among.begin(), among.end(), std::back_inserter(out),
                 [&](unsigned node) { return nodes[node].is_slow == slow; });
    return out;
}

/// The fast ones, or all when all are slow.
Nodes preferred(const std::vector<PlannedNode>& nodes, Nodes among) {
    Nodes fast = by_speed(nodes, among, false);
    return fast.empty() ? std::move(among) : fast;
}

/// So many nodes that follow one another stand in another order in each layer. More would lead more of a tree's steps
/// from rack to rack; with fewer, those who send for a node that is lost are the same in each layer, and have too much
/// to do. Racks mostly have a multiple of it.
constexpr unsigned nodes_in_block = 8;

bool is_same_block(unsigned one, unsigned other) { return one / nodes_in_block == other / nodes_in_block; }

/// Begins with another node for each layer, the first of a block. Steps of the golden ratio spread any number of them.
void rotate_by_layer(Nodes& nodes, unsigned layer) {
    if (nodes.empty()) return;
    double turns = layer * 0.6180339887498949;
    auto start = static_cast<size_t>((turns - static_cast<unsigned>(turns)) * static_cast<double>(nodes.size()));
    while (start > 0 && is_same_block(nodes[start - 1], nodes[start])) --start;
    std::rotate(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(start), nodes.end());
}

/// Each block in an order by chance, which is the same for the same layer.
void mix_blocks(Nodes& nodes, unsigned layer) {
    std::minstd_rand random(layer + 1);
    for (size_t first = 0, end = 0; first < nodes.size(); first = end) {
        for (end = first + 1; end < nodes.size() && is_same_block(nodes[first], nodes[end]);) ++end;
        for (size_t left = end - first; left > 1; --left)
            std::swap(nodes[first + left - 1], nodes[first + random() % left]);
    }
}

Nodes all_of(size_t count) {
    Nodes out(count);
    std::iota(out.begin(), out.end(), 0);
    return out;
}

/// Who has the layer. Slow ones count only when there are no others.
Nodes holders(const std::vector<PlannedNode>& nodes, unsigned layer) {
    Nodes out;
    for (unsigned node = 0; node < nodes.size(); ++node)
        if (has_layer(nodes[node], layer)) out.push_back(node);
    out = preferred(nodes, std::move(out));
    rotate_by_layer(out, layer);
    return out;
}

/// Gives each layer that nobody has to one node.
void assign_owners(const std::vector<PlannedNode>& nodes, const std::vector<uint64_t>& sizes,
                   std::vector<LayerPlan>& plans) {
    Nodes layers = all_of(sizes.size());
    std::stable_sort(layers.begin(), layers.end(), [&](unsigned a, unsigned b) { return sizes[a] > sizes[b]; });
    using Load = std::pair<uint64_t, unsigned>;  // bytes to bring, node
    std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
    for (unsigned node : preferred(nodes, all_of(nodes.size()))) loads.emplace(0, node);
    for (unsigned layer : layers) {
        if (!plans[layer].seeds.empty() || loads.empty()) continue;
        auto [bytes, node] = loads.top();
        loads.pop();
        loads.emplace(bytes + sizes[layer], node);
        plans[layer].seeds = {node};
        plans[layer].from_registry = true;
    }
}

/// Positions below this are served by seeds, one for each seed: that fills its link, as two children a node do.
unsigned roots(const LayerPlan& plan, size_t members) {
    return static_cast<unsigned>(std::min(plan.seeds.size(), members));
}

/// How many nodes of an order need children. Two each if half of the fast nodes can, so that the others serve the other
/// tree. Else three each, of which the third is a slow one, and no more nodes than that needs.
unsigned inner_nodes(unsigned children, unsigned fast) {
    unsigned half = std::max(1U, fast / 2);
    return std::min((children + 1) / 2, std::max(half, (children + 2) / 3));
}

/// The position of the parent of a position that is no root. Each inner one has two children; more leaves are third
/// children of the last inner ones, below which there is nothing else.
unsigned parent_position(const LayerPlan& plan, unsigned position, unsigned root_count) {
    unsigned child = position - root_count;
    return child < 2 * plan.inner ? child / 2 : plan.inner - 1 - (child - 2 * plan.inner);
}

/// `wanted` (or all) of `among`, evenly spread over it.
Nodes spread_over(const Nodes& among, size_t wanted) {
    wanted = std::min(wanted, among.size());
    Nodes out;
    for (size_t i = 0; i < wanted; ++i) out.push_back(among[(2 * i + 1) * among.size() / (2 * wanted)]);
    return out;
}

/// Those of `nodes` that are in `chosen`, or those that are not, in their order.
Nodes with_or_without(const Nodes& nodes, const std::vector<bool>& chosen, bool wanted) {
    Nodes out;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(out),
                 [&](unsigned node) { return chosen[node] == wanted; });
    return out;
}

/// The children of a position; those that parent_position() gives it.
Nodes children_at(const LayerPlan& plan, unsigned position, unsigned root_count, size_t members) {
    Nodes out;
    if (position >= plan.inner) return out;
    for (unsigned child : {2 * position, 2 * position + 1, 2 * plan.inner + plan.inner - 1 - position})
        if (root_count + child < members) out.push_back(root_count + child);
    return out;
}

/// Adds what is at and below a position from left to right: a position stands between its first child and the others.
void add_from_left(const LayerPlan& plan, unsigned position, unsigned root_count, size_t members, Nodes& out) {
    Nodes children = children_at(plan, position, root_count, members);
    for (size_t i = 0; i < children.size(); ++i) {
        if (i == 1) out.push_back(position);
        add_from_left(plan, children[i], root_count, members, out);
    }
    if (children.size() < 2) out.push_back(position);
}

/// Takes the next one.
struct Queue {
    Nodes nodes;
    size_t taken = 0;
    unsigned take() { return nodes[taken++]; }
};

/// Which of the fast nodes have children in each tree: every other one in the first, and in the second the others,
/// where they are enough.
std::array<std::vector<bool>, stripe_count> choose_inner(const Nodes& fast, unsigned inner, size_t count) {
    std::array<std::vector<bool>, stripe_count> out{std::vector<bool>(count), std::vector<bool>(count)};
    for (unsigned node : spread_over(fast, inner)) out[0][node] = true;
    Nodes others = with_or_without(fast, out[0], false), twice = with_or_without(fast, out[0], true);
    for (unsigned node : spread_over(others, inner)) out[1][node] = true;
    for (unsigned node : spread_over(twice, inner - std::min<size_t>(inner, others.size()))) out[1][node] = true;
    return out;
}

/// What is below a node are its neighbours by number, so that few of a tree's steps lead from one rack to another.
void plan_trees(const std::vector<PlannedNode>& nodes, unsigned layer, LayerPlan& plan) {
    Nodes lacking;
    for (unsigned node = 0; node < nodes.size(); ++node)
        if (!has_layer(nodes[node], layer) && (!plan.from_registry || node != plan.seeds.front()))
            lacking.push_back(node);
    Nodes fast = preferred(nodes, lacking);
    Nodes slow = fast.size() == lacking.size() ? Nodes{} : by_speed(nodes, lacking, true);
    rotate_by_layer(fast, layer);
    rotate_by_layer(slow, layer);
    mix_blocks(fast, layer);
    auto members = static_cast<unsigned>(lacking.size());
    unsigned root_count = roots(plan, members);
    plan.inner = inner_nodes(members - root_count, static_cast<unsigned>(fast.size()));
    Nodes positions;
    for (unsigned root = 0; root < root_count; ++root) add_from_left(plan, root, root_count, members, positions);
    auto has_children = choose_inner(fast, plan.inner, nodes.size());
    for (unsigned stripe = 0; stripe < stripe_count; ++stripe) {
        Queue inner{with_or_without(fast, has_children[stripe], true)};
        Queue leaves{with_or_without(fast, has_children[stripe], false)};
        Queue last{slow};
        plan.order[stripe].assign(members, 0);
        plan.place[stripe].assign(nodes.size(), no_place);
        for (unsigned position : positions) {
            Queue& next = position >= fast.size() ? last : position < plan.inner ? inner : leaves;
            unsigned node = next.take();
            plan.order[stripe][position] = node;
            plan.place[stripe][node] = position;
        }
    }
}

bool contains(const Nodes& nodes, unsigned node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); }

unsigned place_of(const LayerPlan& plan, unsigned stripe, unsigned node) {
    const Nodes& places = plan.place[stripe];
    return node < places.size() ? places[node] : no_place;
}

/// Spreads neighbours over a range.
unsigned mixed(unsigned node, unsigned stripe) {
    uint64_t x = (uint64_t{node} * stripe_count + stripe + 1) * 0x9E3779B97F4A7C15U;
    return static_cast<unsigned>((x ^ (x >> 29)) >> 16);
}

/// Adds seeds from the one at `start` on, until there are `limit`.
void add_seeds(const LayerPlan& plan, unsigned start, const Nodes& avoid, unsigned limit, Nodes& out) {
    for (size_t i = 0; i < plan.seeds.size() && out.size() < limit; ++i) {
        unsigned seed = plan.seeds[(start + i) % plan.seeds.size()];
        if (!contains(avoid, seed)) out.push_back(seed);
    }
}

}  // namespace

std::vector<LayerPlan> plan_layers(const std::vector<PlannedNode>& nodes, const std::vector<uint64_t>& sizes) {
    std::vector<LayerPlan> plans(sizes.size());
    for (unsigned layer = 0; layer < sizes.size(); ++layer) plans[layer].seeds = holders(nodes, layer);
    assign_owners(nodes, sizes, plans);
    for (unsigned layer = 0; layer < sizes.size(); ++layer)
        if (!plans[layer].seeds.empty()) plan_trees(nodes, layer, plans[layer]);
    return plans;
}

std::vector<unsigned> sources_of(const LayerPlan& plan, unsigned stripe, unsigned node, unsigned limit) {
    Nodes out;
    unsigned position = place_of(plan, stripe, node);
    if (position == no_place) return out;
    unsigned root_count = roots(plan, plan.order[stripe].size());
    while (position >= root_count) {
        position = parent_position(plan, position, root_count);
        if (out.size() + 1 < limit) out.push_back(plan.order[stripe][position]);
    }
    add_seeds(plan, position, {}, limit, out);
    return out;
}

std::vector<unsigned> children_of(const LayerPlan& plan, unsigned stripe, unsigned node) {
    const Nodes& order = plan.order[stripe];
    unsigned root_count = roots(plan, order.size());
    unsigned position = place_of(plan, stripe, node);
    if (position == no_place) {
        auto seed = std::find(plan.seeds.begin(), plan.seeds.begin() + root_count, node);
        if (seed == plan.seeds.begin() + root_count) return {};
        return {order[static_cast<size_t>(seed - plan.seeds.begin())]};
    }
    Nodes out = children_at(plan, position, root_count, order.size());
    for (unsigned& child : out) child = order[child];
    return out;
}

std::vector<unsigned> sources_for_late(const LayerPlan& plan, unsigned stripe, unsigned node,
                                       const std::vector<unsigned>& avoid, unsigned limit) {
    Nodes out;
    unsigned end = std::min(plan.inner, place_of(plan, stripe, node));
    unsigned start = mixed(node, stripe);
    // Of the second half: those near the root have the most nodes waiting behind them.
    unsigned count = end - end / 2;
    for (unsigned i = 0; i < count && out.size() + 1 < limit; ++i) {
        unsigned source = plan.order[stripe][end / 2 + (start % count + i) % count];
        if (source != node && !contains(avoid, source)) out.push_back(source);
    }
    if (!contains(plan.seeds, node)) add_seeds(plan, start, avoid, limit, out);
    return out;
}

}  // namespace berth::pull::nodes
