// The tracker of a step, beside srun, with a swarm for each image that its nodes want in one way. Pure: connections and
// time come from outside.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/pull/nodes/policy/swarm.hh"

namespace berth::pull::nodes {

class Tracker {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// `nodes` is how many the step has.
    explicit Tracker(unsigned nodes);

    /// What is to be sent after a message of a node, or after its connection has ended.
    std::vector<Outgoing> take(Connection from, const Message& message, Time now);
    std::vector<Outgoing> lost(Connection node, Time now);
    /// To be called at least every 100 ms while there are connections, and again at once when it returned something:
    /// the plans of thousands of nodes are not made at once.
    std::vector<Outgoing> tick(Time now);

  private:
    /// An image, and whether it is started lazily.
    using Wanted = std::pair<Digest, bool>;

    Swarm::Step step() const;

    unsigned nodes_;
    std::set<unsigned> ranks_;                       ///< that have come
    std::unordered_map<Connection, Wanted> wanted_;  ///< by those that are connected
    std::map<Wanted, std::unique_ptr<Swarm>> swarms_;
};

}  // namespace berth::pull::nodes
