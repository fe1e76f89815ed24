// The state of a simulated start, and its events. A flow is one stripe of one layer on its way to one node.
#pragma once
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "runtime/pull/nodes/policy/plan.hh"
#include "tests/cluster/model/model.hh"

namespace berth::cluster_model {

inline constexpr unsigned nobody = ~0U;

struct Flow {
    uint32_t total = 0;      ///< chunks
    uint32_t got = 0;        ///< in order; the node can send these on
    uint32_t flying = 0;     ///< asked for and not here
    uint32_t again = 0;      ///< a new owner brings so many that it has before the next one counts
    uint32_t before = 0;     ///< `got` a second ago
    unsigned source = nobody;
    unsigned first_child = nobody;  ///< flows that have this one's node as their source
    unsigned next_child = nobody;
    unsigned turn = 0;       ///< goes up with each source: what was on its way from the last one does not count
    bool is_queued = false;  ///< at its source
    double since = 0;        ///< of this source
    std::vector<unsigned> tried;
};

struct Node {
    double up = 0, down = 0;  ///< bytes a second
    double down_free = 0, conversion_free = 0;
    bool is_sending = false;
    bool is_here = true, is_lost = false;
    bool is_left = false;  ///< was found slow: takes no children any more
    unsigned holding_looks = 0;  ///< in a row, at which the others waited for it
    uint64_t missing = 0;  ///< chunks
    uint64_t got = 0, before = 0;
    std::deque<unsigned> waiting;  ///< flows to send a chunk to, in turn
};

enum class What { sent, arrived, joins, is_lost, times_out, look };

struct Event {
    double time;
    uint64_t number;  ///< of two at the same time, the one made first comes first
    What what;
    unsigned of;    ///< a node or a flow
    unsigned turn;  ///< of a flow
    bool operator>(const Event& other) const {
        return time != other.time ? time > other.time : number > other.number;
    }
};

class Swarm {
  public:
    explicit Swarm(const Setting& setting);
    Outcome run();

  private:
    // Flows stand by layer, stripe and node; the registry is the node after the last one.
    unsigned index(unsigned layer, unsigned stripe, unsigned node) const {
        return (layer * stripes_ + stripe) * (registry_ + 1) + node;
    }
    unsigned node_of(unsigned flow) const { return flow % (registry_ + 1); }
    unsigned stripe_of(unsigned flow) const { return flow / (registry_ + 1) % stripes_; }
    unsigned layer_of(unsigned flow) const { return flow / (registry_ + 1) / stripes_; }

    // swarm.cc
    void make_nodes();
    void make_plan();
    void make_flows();
    void at(double time, What what, unsigned of, unsigned turn = 0);
    void act(const Event& event);
    void join(unsigned node);
    uint32_t available(const Flow& flow, unsigned number) const;
    bool can_send(unsigned flow) const;
    void offer(unsigned flow);
    void start_sending(unsigned node);
    void send_chunk(unsigned from, unsigned flow);
    void arrive(unsigned flow);
    bool is_owner(unsigned layer, unsigned node) const { return owner_[layer] == node; }

    // sources.cc
    void connect(unsigned flow, unsigned source);
    void disconnect(unsigned flow);
    std::vector<unsigned> sources(unsigned flow) const;
    std::vector<unsigned> late_sources(unsigned flow) const;
    bool move(unsigned flow);
    std::vector<unsigned> children(unsigned node) const;
    void lose(unsigned node);
    void replace_owner(unsigned layer);
    void look();
    void look_at_nodes();
    void take_over_from(unsigned node);
    bool lags(unsigned node) const;
    uint32_t lag(unsigned flow) const;
    double whole_lag(unsigned node) const;

    Setting setting_;
    unsigned registry_;
    unsigned stripes_;
    std::vector<berth::pull::nodes::LayerPlan> plan_;
    std::vector<unsigned> owner_;   ///< by layer
    std::vector<double> size_of_;   ///< of a chunk, by layer
    std::vector<Node> nodes_;
    std::vector<Flow> flows_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    double now_ = 0;
    uint64_t made_ = 0;
    unsigned unfinished_ = 0;
    unsigned quiet_ = 0;  ///< seconds without a chunk
    double best_usual_ = 0;  ///< chunks that the node in the middle has got in a second
    Outcome out_;
};

}  // namespace berth::cluster_model
