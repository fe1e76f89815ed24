// Steps in which nodes come, are slow, fail and die at random: whoever survives has everything, or was told to pull
// alone. And messages that make no sense, no layers, many nodes.
#include <chrono>
#include <random>

#include "tests/catch.hh"
#include "tests/unit/pull_share_tracker.hh"

using namespace berth;
using namespace berth::pull::nodes;

namespace {

constexpr unsigned layer_count = 5;

struct Node {
    enum class State { absent, here, dead } state = State::absent;
    size_t read = 0;  ///< of its messages
    bool is_planned = false, is_alone = false, is_finished = false;
    std::array<bool, layer_count> has{}, owns{}, brings{}, alone{};
    std::array<std::vector<std::string>, layer_count> sources{};
};

class Run {
  public:
    Run(unsigned seed, unsigned nodes) : random(seed), scene(nodes), nodes_(nodes + 1) {
        for (Node& node : nodes_)
            for (bool& has : node.has) has = chance(10);
    }

    void run() {
        for (unsigned turn = 0; turn < 4000 && !is_over(); ++turn) {
            for (unsigned node = 1; node < nodes_.size(); ++node) act(node, turn);
            scene.pass(50);
        }
    }

    void check() {
        for (unsigned node = 1; node < nodes_.size(); ++node) {
            INFO("node " << node);
            CHECK((nodes_[node].state == Node::State::dead || nodes_[node].is_alone || nodes_[node].is_finished));
        }
        for (unsigned layer = 0; layer < layer_count; ++layer) {
            INFO("layer " << layer);
            CHECK(fetched[layer] <= 1 + replaced[layer]);
        }
    }

  private:
    bool chance(unsigned percent) { return random() % 100 < percent; }
    unsigned number_of(const std::string& name) { return static_cast<unsigned>(std::stoul(name.substr(1))); }
    bool is_over() {
        return std::all_of(nodes_.begin() + 1, nodes_.end(), [](const Node& node) {
            bool is_served = node.is_alone || node.is_finished;
            return node.state == Node::State::dead || (node.state == Node::State::here && is_served);
        });
    }

    void act(unsigned number, unsigned turn) {
        Node& node = nodes_[number];
        if (node.state == Node::State::absent && (chance(20) || turn > 30)) {
            node.state = Node::State::here;
            scene.hello(number);
        }
        if (node.state != Node::State::here) return;
        if (turn < 60 && chance(1) && chance(60)) return die(number);
        for (; node.read < scene.got[number].size(); ++node.read) {
            Message message = scene.got[number][node.read];
            read(number, message);
        }
        if (node.is_planned && !node.is_alone && !node.is_finished) work(number);
    }

    void die(unsigned number) {
        for (unsigned layer = 0; layer < layer_count; ++layer)
            if (nodes_[number].owns[layer]) ++replaced[layer];
        nodes_[number].state = Node::State::dead;
        scene.lost(number);
    }

    void read(unsigned number, const Message& message) {
        Node& node = nodes_[number];
        if (as<Fetch>(message)) {
            if (chance(10)) return scene.say(number, Alone{std::nullopt, "no documents"});
            scene.documents(number);
            have(number);
        }
        if (as<Documents>(message)) have(number);
        if (const auto* plan = std::get_if<Plan>(&message)) {
            node.is_planned = true;
            for (unsigned layer = 0; layer < layer_count; ++layer)
                take_role(node, layer, plan->layers[layer], plan->peers);
        }
        if (const auto* role = std::get_if<NewRole>(&message)) {
            CHECK(node.is_planned);
            take_role(node, role->layer, role->role, role->peers);
        }
        if (const auto* alone = std::get_if<Alone>(&message)) {
            if (alone->layer)
                node.alone[*alone->layer] = true;
            else
                node.is_alone = true;
        }
    }

    void have(unsigned number) {
        std::string flags;
        for (bool has : nodes_[number].has) flags += has ? '1' : '0';
        scene.have(number, flags);
    }

    void take_role(Node& node, unsigned layer, const LayerRole& role, const std::vector<Peer>& peers) {
        if (role.is_owner && !node.has[layer] && !node.owns[layer]) ++fetched[layer];
        node.owns[layer] = role.is_owner;
        node.sources[layer].clear();
        for (const std::vector<unsigned>& list : role.sources)
            for (unsigned source : list) node.sources[layer].push_back(peers.at(source).node);
    }

    void work(unsigned number) {
        Node& node = nodes_[number];
        bool lacks_any = false;
        for (unsigned layer = 0; layer < layer_count; ++layer) {
            if (!node.has[layer] && chance(20)) bring(number, layer);
            lacks_any = lacks_any || !node.has[layer];
        }
        if (lacks_any) return;
        node.is_finished = true;
        scene.say(number, Finished{});
    }

    void bring(unsigned number, unsigned layer) {
        Node& node = nodes_[number];
        if (node.alone[layer]) {
            node.has[layer] = true;
            return scene.say(number, Done{layer});
        }
        if (node.owns[layer]) {
            if (chance(5)) {
                ++replaced[layer];
                node.owns[layer] = false;
                return scene.say(number, Alone{layer, "the registry broke"});
            }
            node.has[layer] = true;
            return scene.sealed(number, layer);
        }
        bool all_dead = true;
        for (const std::string& source : node.sources[layer]) {
            const Node& from = nodes_[number_of(source)];
            if (from.state == Node::State::dead) continue;
            all_dead = false;
            if (!from.has[layer]) continue;
            node.has[layer] = true;
            return scene.say(number, Done{layer});
        }
        if (all_dead) scene.say(number, Alone{layer, "no source answers"});
    }

    std::mt19937 random;
    Scene scene;
    std::vector<Node> nodes_;
    std::array<unsigned, layer_count> fetched{}, replaced{};
};

}  // namespace

TEST_CASE("tracker: whoever survives has everything or was told to pull alone, and registries are asked no more often "
          "than owners were lost",
          "[share]") {
    for (unsigned seed = 1; seed <= 400; ++seed) {
        INFO("seed " << seed);
        Run run(seed, 1 + seed % 17);
        run.run();
        run.check();
    }
}

TEST_CASE("tracker: what makes no sense is passed over", "[share]") {
    Scene scene(2);
    scene.say(7, Finished{});
    scene.say(7, Done{3});
    scene.lost(7);
    scene.hello(1);
    scene.have(1, "0");
    scene.documents(2);
    CHECK(scene.count<Plan>(1) == 0);
    scene.documents(1);
    scene.documents(1);
    scene.say(1, Have{{1, 2}, {true}});
    scene.have(1, "0");
    scene.have(1, "1");
    scene.pass(200);
    CHECK(scene.count<Plan>(1) == 1);
    scene.sealed(1, 4095);
    scene.say(1, Done{4095});
    scene.say(1, Alone{4095, "x"});
    scene.say(1, Complaint{key_of(1), 4095, Fault::wrong, "x"});
    scene.say(1, Complaint{key_of(9), 0, Fault::silent, "x"});
    scene.hello(1);
    CHECK(scene.count<Plan>(1) == 1);
    CHECK(scene.role(1, 0) == "own");
}

TEST_CASE("tracker: an image without layers", "[share]") {
    Scene scene(1);
    scene.hello(1);
    scene.documents(1);
    scene.have(1, "");
    REQUIRE(scene.count<Plan>(1) == 1);
    scene.say(1, Finished{});
    CHECK(scene.count<Finished>(1) == 1);
}

TEST_CASE("tracker: a thousand nodes with fifty layers have their plans in seconds of one CPU", "[share]") {
    auto began = std::chrono::steady_clock::now();
    Scene scene(1000);
    scene.all_come(std::vector<std::string>(1000, std::string(50, '0')));
    scene.pass(100);
    for (unsigned node = 1; node <= 1000; ++node) CHECK(scene.count<Plan>(node) == 1);
    for (unsigned layer = 0; layer < 50; ++layer) scene.sealed(scene.owners(layer, 1000).at(0), layer);
    CHECK(scene.count<Complete>(1) >= 49);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
}
