// Nodes that stand still, are killed or are slow, and those that come late: whoever is left has everything within the
// time that is written down (ADR 0166).
#include <algorithm>
#include <random>

#include "tests/catch.hh"
#include "tests/unit/pull_share_tracker.hh"

using namespace berth;
using namespace berth::pull::nodes;

namespace {

constexpr unsigned layer_count = 3;
constexpr uint32_t whole = 24;  ///< chunks of a layer
constexpr uint32_t a_second = 4;

/// A node as it is when it keeps to the rules.
struct Node {
    enum class State { absent, here, stopped, dead } state = State::absent;
    size_t read = 0;  ///< of its messages
    bool is_planned = false, is_alone = false, is_finished = false;
    uint64_t registry = 0, peers = 0;
    /// Nothing comes from the registry: it is down, or has said that the node is to wait.
    bool is_cut_off = false, is_to_wait = false;
    struct Layer {
        uint32_t chunks = 0;
        bool is_owner = false, is_by_self = false;
        std::vector<unsigned> sources = {};
        bool has() const { return chunks == whole; }
    };
    std::array<Layer, layer_count> layers;

    bool is_live() const { return state == State::here; }
    bool has_all() const {
        return std::ranges::all_of(layers, [](const Layer& layer) { return layer.has(); });
    }
};

/// A step, second by second.
class Step {
  public:
    explicit Step(unsigned nodes) : scene_(nodes), nodes_(nodes + 1) {}

    Node& node(unsigned number) { return nodes_[number]; }
    void come(unsigned number) {
        nodes_[number].state = Node::State::here;
        scene_.hello(number);
    }
    void lose(unsigned number) {
        nodes_[number].state = Node::State::dead;
        scene_.lost(number);
    }
    void pass_second() {
        for (unsigned number = 1; number < nodes_.size(); ++number)
            if (nodes_[number].is_live()) act(number);
        scene_.pass(1000);
    }
    /// Until those that live have everything; after how many seconds, at most `limit`.
    unsigned until_whole(unsigned limit) {
        for (unsigned second = 0; second < limit; ++second) {
            bool are_whole = std::ranges::all_of(nodes_, [](const Node& node) {
                return !node.is_live() || node.has_all();
            });
            if (are_whole) return second;
            pass_second();
        }
        return limit;
    }
    uint64_t registry() const {
        uint64_t out = 0;
        for (const Node& node : nodes_) out += node.registry;
        return out;
    }

  private:
    void act(unsigned number) {
        Node& node = nodes_[number];
        while (node.read < scene_.got[number].size()) read(number, scene_.got[number][node.read++]);
        if (!node.is_planned && !node.is_alone) return;
        for (unsigned layer = 0; layer < layer_count; ++layer) bring(number, layer);
        if (!node.is_alone && !node.is_finished && node.has_all()) {
            node.is_finished = true;
            scene_.say(number, Finished{});
        }
        if (!node.is_alone) tell_progress(number);
    }

    void read(unsigned number, const Message& message) {
        Node& node = nodes_[number];
        if (as<Fetch>(message)) scene_.documents(number), have(number);
        if (as<Documents>(message)) have(number);
        if (const auto* plan = std::get_if<Plan>(&message)) {
            node.is_planned = true;
            for (unsigned layer = 0; layer < layer_count; ++layer)
                take_role(node.layers[layer], plan->layers[layer], plan->peers);
        }
        if (const auto* role = std::get_if<NewRole>(&message))
            take_role(node.layers[role->layer], role->role, role->peers);
        if (const auto* alone = std::get_if<Alone>(&message)) {
            if (!alone->layer) node.is_alone = true;
            for (unsigned layer = 0; layer < layer_count; ++layer)
                if (!alone->layer || *alone->layer == layer) begin_anew(node.layers[layer]).is_by_self = true;
        }
    }

    void have(unsigned number) {
        std::string flags;
        for (const Node::Layer& layer : nodes_[number].layers) flags += layer.has() ? '1' : '0';
        scene_.have(number, flags);
    }

    static Node::Layer& begin_anew(Node::Layer& layer) {
        if (!layer.has()) layer.chunks = 0;
        return layer;
    }

    static void take_role(Node::Layer& layer, const LayerRole& role, const std::vector<Peer>& peers) {
        if (role.is_owner && !layer.is_owner) begin_anew(layer);
        layer.is_owner = role.is_owner;
        layer.sources.clear();
        for (const std::vector<unsigned>& list : role.sources)
            for (unsigned source : list)
                layer.sources.push_back(static_cast<unsigned>(std::stoul(peers.at(source).node.substr(1))));
    }

    void bring(unsigned number, unsigned index) {
        Node& node = nodes_[number];
        Node::Layer& layer = node.layers[index];
        if (layer.has()) return;
        if (layer.is_owner || layer.is_by_self) {
            if (node.is_cut_off || node.is_to_wait) return;
            uint32_t got = std::min(a_second, whole - layer.chunks);
            layer.chunks += got, node.registry += got;
            if (layer.has() && layer.is_owner) scene_.sealed(number, index);
            return;
        }
        receive(number, index);
    }

    void receive(unsigned number, unsigned index) {
        Node& node = nodes_[number];
        Node::Layer& layer = node.layers[index];
        for (unsigned source : std::vector<unsigned>(layer.sources)) {
            const Node& from = nodes_[source];
            if (!from.is_live()) continue;
            if (from.is_alone || from.layers[index].is_by_self) {
                scene_.say(number, Complaint{key_of(source), index, Fault::gone, ""});
                continue;
            }
            uint32_t got = std::min(a_second, from.layers[index].chunks - std::min(layer.chunks,
                                                                                     from.layers[index].chunks));
            if (got == 0) continue;
            layer.chunks += got, node.peers += got;
            if (layer.has()) scene_.say(number, Done{index});
            return;
        }
    }

    void tell_progress(unsigned number) {
        const Node& node = nodes_[number];
        Progress out{.registry = node.registry, .peers = node.peers};
        for (const Node::Layer& layer : node.layers) {
            bool is_brought = layer.is_owner || layer.is_by_self;
            out.is_at_work = out.is_at_work || (is_brought && !layer.has() && !node.is_cut_off);
            out.layers.push_back({layer.chunks, !is_brought && !layer.has()});
        }
        scene_.say(number, out);
    }

    Scene scene_;
    std::vector<Node> nodes_;
};

/// What becomes of a node.
enum class Fate { nothing, stopped, killed, cut_off, waits };

void meet(Step& step, unsigned number, Fate fate) {
    Node& node = step.node(number);
    if (!node.is_live()) return;
    if (fate == Fate::stopped) node.state = Node::State::stopped;
    if (fate == Fate::killed) step.lose(number);
    if (fate == Fate::cut_off) node.is_cut_off = true;
    if (fate == Fate::waits) node.is_to_wait = true;
}

}  // namespace

TEST_CASE("tracker: a late node is whole in 45 s, whatever has become of the two before it", "[share][stall]") {
    for (Fate first : {Fate::stopped, Fate::killed, Fate::cut_off})
        for (Fate second : {Fate::nothing, Fate::stopped, Fate::killed}) {
            INFO("node 1: " << static_cast<int>(first) << ", node 2: " << static_cast<int>(second));
            Step step(3);
            step.come(1);
            step.come(2);
            for (int seconds = 0; seconds < 3; ++seconds) step.pass_second();
            meet(step, 1, first);
            // One that is cut off is never whole by itself; the others are.
            unsigned until = step.until_whole(90);
            CHECK(until <= (first == Fate::cut_off ? 90 : 45));
            meet(step, 2, second);
            step.come(3);
            for (int seconds = 0; seconds < 45 && !step.node(3).has_all(); ++seconds) step.pass_second();
            CHECK(step.node(3).has_all());
        }
}

TEST_CASE("tracker: an owner that its registry has told to wait is not taken for dead", "[share][stall]") {
    Step step(3);
    for (unsigned number : {1, 2, 3}) step.come(number);
    for (int seconds = 0; seconds < 2; ++seconds) step.pass_second();
    for (unsigned number : {1, 2, 3}) meet(step, number, Fate::waits);
    for (int seconds = 0; seconds < 200; ++seconds) step.pass_second();
    for (unsigned number : {1, 2, 3}) step.node(number).is_to_wait = false;
    CHECK(step.until_whole(60) < 60);
    // Nobody has brought anything twice.
    CHECK(step.registry() == layer_count * whole);
}

TEST_CASE("tracker: a node that is heard again is as good as before", "[share][stall]") {
    Step step(2);
    step.come(1);
    step.come(2);
    for (int seconds = 0; seconds < 3; ++seconds) step.pass_second();
    meet(step, 1, Fate::stopped);
    for (int seconds = 0; seconds < 40; ++seconds) step.pass_second();
    CHECK(step.node(2).has_all());
    step.node(1).state = Node::State::here;
    CHECK(step.until_whole(30) < 30);
}

TEST_CASE("tracker: whoever is left is whole in the time that is written down, whatever happens", "[share][stall]") {
    for (unsigned seed = 1; seed <= 50; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        unsigned nodes = 2 + random() % 7;
        Step step(nodes);
        std::vector<unsigned> comes(nodes + 1), meets(nodes + 1);
        std::vector<Fate> fates(nodes + 1, Fate::nothing);
        for (unsigned number = 1; number <= nodes; ++number) {
            comes[number] = random() % 3 == 0 ? random() % 60 : 0;
            meets[number] = comes[number] + 1 + random() % 12;
            if (random() % 2 == 0) fates[number] = static_cast<Fate>(1 + random() % 3);
        }
        // Somebody reaches the registry.
        fates[1 + random() % nodes] = Fate::nothing;
        unsigned last = 0, losses = 0;
        for (unsigned number = 1; number <= nodes; ++number) {
            last = std::max({last, comes[number], fates[number] == Fate::nothing ? 0 : meets[number]});
            losses += fates[number] != Fate::nothing;
        }
        for (unsigned second = 0; second <= last; ++second) {
            for (unsigned number = 1; number <= nodes; ++number) {
                if (comes[number] == second) step.come(number);
                if (meets[number] == second) meet(step, number, fates[number]);
            }
            step.pass_second();
        }
        // One owner after the other may have been lost, each after its layer had come in part.
        unsigned bound = 70 + 25 + 30 * losses;
        CHECK(step.until_whole(bound) < bound);
    }
}
