// Who brings a layer to the nodes of a step, and from whom each node takes it. Pure: the tracker of a real step and the
// model in tests/cluster/model use the same functions.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/pull/nodes/protocol/chunk_head.hh"

namespace berth::pull::nodes {

/// A node as the tracker knows it when it plans. Nodes are named by their place in the list of nodes, in which those
/// that are near each other in the network follow one another.
struct PlannedNode {
    std::vector<bool> has;  ///< by layer
    bool is_slow = false;   ///< becomes a leaf, and an owner only when there is nobody else
};

/// Stands in LayerPlan::place for a node that needs nothing.
inline constexpr unsigned no_place = ~0U;

/// The order in which the nodes stand in the two trees of one layer. The inner nodes of one tree are leaves of the
/// other, so that each node sends about as many bytes as it receives. What is below a node are its neighbours.
struct LayerPlan {
    std::vector<unsigned> seeds;  ///< who has the layer, or one who brings it from the registry; the first is the owner
    bool from_registry = false;   ///< the owner does not have it yet
    std::array<std::vector<unsigned>, stripe_count> order;  ///< of the nodes that lack it, by stripe: inner ones first
    std::array<std::vector<unsigned>, stripe_count> place;  ///< of each node in `order`, or no_place
    unsigned inner = 0;           ///< so many of each order have children
};

/// Owners are those who have a layer; the others are given, largest first (`sizes` are bytes), to the node with the
/// least to bring so far, so that download, inflating and conversion are spread.
std::vector<LayerPlan> plan_layers(const std::vector<PlannedNode>& nodes, const std::vector<uint64_t>& sizes);

/// From whom `node` takes the stripe: its parent in the tree; then its grandparent, up to its seed; then other seeds.
/// So none of them waits for `node`, whoever else goes up the tree. At most `limit` (2 or more), of which the last is a
/// seed. Empty for a seed, and for a node that is not in the plan.
std::vector<unsigned> sources_of(const LayerPlan& plan, unsigned stripe, unsigned node, unsigned limit = 4);

/// Who has `node` as its first source in the stripe: its children in the tree, or the root that a seed serves.
std::vector<unsigned> children_of(const LayerPlan& plan, unsigned stripe, unsigned node);

/// For a node that came after the plan was made, or whose sources are gone: nodes that have children anyway, and the
/// seeds, spread by `node` so that not all ask the same. None of `avoid`. A node of the plan is only given nodes that
/// stand before it in the order, so that it does not wait for itself.
std::vector<unsigned> sources_for_late(const LayerPlan& plan, unsigned stripe, unsigned node,
                                       const std::vector<unsigned>& avoid, unsigned limit = 4);

}  // namespace berth::pull::nodes
