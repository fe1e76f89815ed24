// The tracker of a step, beside srun: it knows which node has what, plans once all have said so (or the rest is late),
// and tells changes. Pure: connections and time come from outside.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "runtime/pull/share/gathering.hh"
#include "runtime/pull/share/messages.hh"

namespace berth::pull::share {

class Swarm;  // the nodes that share one image

class Tracker {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// `nodes` is how many the step has.
    explicit Tracker(unsigned nodes);
    ~Tracker();

    /// What is to be sent after a message of a node, or after its connection has ended.
    std::vector<Outgoing> take(Connection from, const Message& message, Time now);
    std::vector<Outgoing> lost(Connection node, Time now);
    /// To be called at least every 100 ms while there are connections, and again at once when it returned something:
    /// the plans of thousands of nodes are not made at once.
    std::vector<Outgoing> tick(Time now);

  private:
    /// How many of the step's nodes have not come yet.
    unsigned missing() const;
    Gathering::Step step() const;

    unsigned nodes_;
    std::set<unsigned> ranks_;                       ///< that have come
    std::unordered_map<Connection, Digest> images_;  ///< of those that are connected
    std::map<Digest, std::unique_ptr<Swarm>> swarms_;
    std::unordered_map<Connection, Digest> gathered_;  ///< the images of those that exchange pieces
    std::map<Digest, Gathering> gatherings_;
};

}  // namespace berth::pull::share
