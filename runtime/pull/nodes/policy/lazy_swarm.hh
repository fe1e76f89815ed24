// Nodes whose image runs already. All know all, and come to the same by ChunkOwners: who asks the registry for which
// chunk, and whom the others ask for it.
#pragma once
#include <vector>

#include "runtime/pull/nodes/policy/swarm.hh"

namespace berth::pull::nodes {

class LazySwarm : public Swarm {
  private:
    void come(unsigned place) override;
    bool is_time_to_plan(Step step) const override;
    void send_plan(unsigned place) override;
    void hear(unsigned place, const Message& message) override;
    void left(unsigned place, Stage before) override;
    void restart() override;

    void tell_others(unsigned place, const Message& message);

    std::vector<Done> done_;  ///< layers that a node has proved
};

}  // namespace berth::pull::nodes
