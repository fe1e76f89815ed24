// How far the nodes of a step are that share what they pull.
#pragma once
#include <cstdint>
#include <string>

namespace berth::pull::share {

/// In answer to Progress: how far the nodes that share the image are.
struct StepStatus {
    unsigned nodes = 0, ready = 0;     ///< of them; of those, who have everything
    uint64_t registry = 0, peers = 0;  ///< bytes so far from the registry, and from other nodes, of all together
    uint64_t rate = 0, median = 0;     ///< bytes a second: of all together, and of the one in the middle
    std::string last;                  ///< the node that lacks most; empty: all have everything
    uint64_t last_bytes = 0, last_total = 0;  ///< that it has got, and is to get
    bool is_told_here = false;         ///< this node tells people of it, and no other does
};

}  // namespace berth::pull::share
