// A cold start on many nodes as a discrete-event program over the planner that the product uses. Nodes have a
// full-duplex link; a chunk is sent on as soon as it is whole; a node sends to its children in turn, a chunk each.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace berth::cluster_model {

enum class Shape {
    two_trees,      ///< what plan.hh makes
    chain,          ///< each node from the one before it
    each_for_itself ///< every node from the registry
};

/// What happens when a source is slow that the plan took for a fast one.
enum class Watch {
    none,  ///< the children stay
    /// A node that had less than half of the median node's bytes for a second, though its sources have more than it,
    /// loses its children, which go to its parent. (A node that waits for a slow one has the other stripe.)
    node
};

/// Seconds, bytes, and bytes a second.
struct Setting {
    unsigned nodes = 1;
    std::vector<uint64_t> layers = {};
    Shape shape = Shape::two_trees;
    double link = 1.25e9;      ///< of a node, each way
    double registry = 1.25e9;  ///< what the registry sends at most
    double conversion = 0;     ///< what an owner converts at most; 0: without limit
    double latency = 100e-6;   ///< from a node to another
    uint64_t chunk = 1U << 20;
    std::vector<bool> slow = {};  ///< by node; none when empty
    double slow_rate = 0.25;   ///< of the link, for slow nodes
    bool slow_known = true;    ///< when the plan is made
    Watch watch = Watch::node;
    std::vector<std::pair<unsigned, double>> late = {};  ///< the last ones, unknown to the plan: when they come
    std::vector<std::pair<unsigned, double>> lost = {};  ///< nodes that are lost, and when
    double timeout = 2;        ///< after which a node is taken for lost
};

struct Outcome {
    std::vector<double> done;      ///< when each node had everything; negative for one that never had
    uint64_t from_registry = 0;    ///< bytes
    uint64_t moves = 0;            ///< how often a receiver took another source
    uint64_t events = 0;
};

Outcome simulate(const Setting& setting);

/// sbcast: blocks of 8 MiB through a tree with eight children a node, where the root waits for all of the tree before
/// it sends the next block. When each node has the whole file. Not by events: each block takes the same time.
std::vector<double> sbcast(const Setting& setting);

/// Of the nodes that finished; `share` 0.5 is the median.
double percentile(std::vector<double> done, double share);

/// About `share` of the nodes, the same for the same seed. Never the first one when there are others.
std::vector<bool> random_slow(unsigned nodes, double share, unsigned seed);

}  // namespace berth::cluster_model
