// The tracker of a step, beside srun: it knows which node has what, plans once all have said so (or the rest is late),
// and tells changes. Pure: connections and time come from outside.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/pull/share/messages.hh"

namespace berth::pull::share {

using Connection = uint64_t;  ///< a number never used twice

/// One message to one node.
struct Outgoing {
    Connection to;
    ToNode message;
};

class Tracker {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// `nodes` is how many the step has.
    explicit Tracker(unsigned nodes);
    ~Tracker();

    /// What is to be sent after a message of a node, or after its connection has ended.
    std::vector<Outgoing> take(Connection from, const FromNode& message, Time now);
    std::vector<Outgoing> lost(Connection node, Time now);
    /// To be called at least every 100 ms while there are connections.
    std::vector<Outgoing> tick(Time now);

  private:
    struct Swarm;  // the nodes that share one image
    unsigned nodes_;
    std::map<Digest, std::unique_ptr<Swarm>> swarms_;
};

}  // namespace berth::pull::share
