// Who brings layers, and the two trees of each: properties of many random steps.
#include "runtime/pull/nodes/policy/plan.hh"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "tests/catch.hh"
#include "tests/fixtures/slowness.hh"

using namespace berth::pull::nodes;

namespace {

constexpr int cases = 2500;

struct Step {
    std::vector<PlannedNode> nodes;
    std::vector<uint64_t> sizes;
};

bool chance(std::mt19937& random, double share) { return std::uniform_real_distribution<>()(random) < share; }

unsigned number(std::mt19937& random, unsigned least, unsigned most) {
    return std::uniform_int_distribution<unsigned>(least, most)(random);
}

/// Sizes from one node to hundreds, some warm in part, some with many slow nodes.
Step random_step(std::mt19937& random) {
    Step step;
    unsigned count = number(random, 1, chance(random, 0.2) ? 700 : 40);
    step.sizes.resize(number(random, 0, 6));
    for (uint64_t& size : step.sizes) size = number(random, 0, 1'000'000'000);
    double slow = std::array{0.0, 0.01, 0.2, 0.6, 1.0}[number(random, 0, 4)];
    double warm = std::array{0.0, 0.0, 0.05, 0.5, 1.0}[number(random, 0, 4)];
    for (unsigned i = 0; i < count; ++i) {
        PlannedNode node;
        node.is_slow = chance(random, slow);
        for (size_t layer = 0; layer < step.sizes.size(); ++layer) node.has.push_back(chance(random, warm));
        step.nodes.push_back(node);
    }
    return step;
}

Step cold(unsigned nodes, std::vector<uint64_t> sizes) {
    Step step{.nodes = std::vector<PlannedNode>(nodes), .sizes = std::move(sizes)};
    for (PlannedNode& node : step.nodes) node.has.assign(step.sizes.size(), false);
    return step;
}

bool is_seed(const LayerPlan& plan, unsigned node) {
    return std::find(plan.seeds.begin(), plan.seeds.end(), node) != plan.seeds.end();
}

unsigned parent(const LayerPlan& plan, unsigned stripe, unsigned node) {
    return sources_of(plan, stripe, node).front();
}

/// Hops to a seed; 0 when there is a circle.
unsigned depth(const LayerPlan& plan, unsigned stripe, unsigned node) {
    unsigned hops = 0;
    while (!is_seed(plan, node)) {
        if (++hops > plan.order[stripe].size()) return 0;
        node = parent(plan, stripe, node);
    }
    return hops;
}

/// Whether what `one` gets has come by way of `node`.
bool waits_for(const LayerPlan& plan, unsigned stripe, unsigned one, unsigned node) {
    while (one != node && !is_seed(plan, one)) one = parent(plan, stripe, one);
    return one == node;
}

std::map<unsigned, unsigned> children(const LayerPlan& plan, unsigned stripe) {
    std::map<unsigned, unsigned> out;
    for (unsigned node : plan.order[stripe]) ++out[parent(plan, stripe, node)];
    return out;
}

size_t members(const LayerPlan& plan) { return plan.order[0].size(); }

size_t slow_members(const Step& step, const LayerPlan& plan) {
    return static_cast<size_t>(std::count_if(plan.order[0].begin(), plan.order[0].end(),
                                             [&](unsigned node) { return step.nodes[node].is_slow; }));
}

size_t fast_members(const Step& step, const LayerPlan& plan) { return members(plan) - slow_members(step, plan); }

/// Half of the fast nodes can serve all members with three children each.
bool fast_suffice(const Step& step, const LayerPlan& plan) {
    size_t from_seeds = std::min(plan.seeds.size(), members(plan));
    return 3 * (fast_members(step, plan) / 2) >= members(plan) - from_seeds;
}

/// Calls check(step, plan, layer) for each layer of each random step.
template <typename Check>
void for_plans(unsigned seed, Check check) {
    std::mt19937 random(seed);
    for (int i = 0; i < cases; ++i) {
        Step step = random_step(random);
        std::vector<LayerPlan> plans = plan_layers(step.nodes, step.sizes);
        INFO("case " << i << ", " << step.nodes.size() << " nodes");
        REQUIRE(plans.size() == step.sizes.size());
        for (unsigned layer = 0; layer < plans.size(); ++layer) check(step, plans[layer], layer);
    }
}

}  // namespace

TEST_CASE("share plan: every node that lacks a layer reaches a seed in each stripe, within a logarithm of hops",
          "[share]") {
    for_plans(1, [](const Step& step, const LayerPlan& plan, unsigned layer) {
        std::set<unsigned> lacking;
        for (unsigned node = 0; node < step.nodes.size(); ++node)
            if (!step.nodes[node].has[layer] && !is_seed(plan, node)) lacking.insert(node);
        double most = std::ceil(std::log2(std::max<size_t>(1, lacking.size()))) + 1;
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe) {
            REQUIRE(std::set<unsigned>(plan.order[stripe].begin(), plan.order[stripe].end()) == lacking);
            REQUIRE(plan.order[stripe].size() == lacking.size());
            for (unsigned node : lacking) {
                unsigned hops = depth(plan, stripe, node);
                REQUIRE((hops >= 1 && hops <= most));
            }
        }
    });
}

TEST_CASE("share plan: no node has more than two children, or three with slow nodes", "[share]") {
    for_plans(2, [](const Step& step, const LayerPlan& plan, unsigned) {
        bool mixed_speeds = slow_members(step, plan) > 0 && fast_members(step, plan) > 0;
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
            for (auto [node, count] : children(plan, stripe)) {
                REQUIRE(count <= (mixed_speeds ? 3 : 2));
                if (is_seed(plan, node)) REQUIRE(count == 1);  // in each stripe: two in all
            }
    });
}

TEST_CASE("share plan: a node has children in one tree, and a slow one in none", "[share]") {
    for_plans(3, [](const Step& step, const LayerPlan& plan, unsigned) {
        bool all_alike = fast_members(step, plan) == 0;
        if (!all_alike && !fast_suffice(step, plan)) return;
        std::map<unsigned, unsigned> first = children(plan, 0), second = children(plan, 1);
        for (unsigned node : plan.order[0]) {
            REQUIRE((first.count(node) == 0 || second.count(node) == 0));
            if (step.nodes[node].is_slow && !all_alike) REQUIRE((first.count(node) == 0 && second.count(node) == 0));
        }
    });
}

TEST_CASE("share plan: the children of a node are those whose first source it is", "[share]") {
    for_plans(11, [](const Step& step, const LayerPlan& plan, unsigned) {
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe) {
            std::map<unsigned, std::set<unsigned>> wanted;
            for (unsigned node : plan.order[stripe])
                wanted[sources_of(plan, stripe, node).at(0)].insert(node);
            for (unsigned node = 0; node < step.nodes.size(); ++node) {
                std::vector<unsigned> found = children_of(plan, stripe, node);
                REQUIRE(std::set<unsigned>(found.begin(), found.end()) == wanted[node]);
            }
        }
    });
}

TEST_CASE("share plan: a third child is a slow node", "[share]") {
    for_plans(4, [](const Step& step, const LayerPlan& plan, unsigned) {
        if (!fast_suffice(step, plan)) return;
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe) {
            std::map<unsigned, unsigned> fast;
            for (unsigned node : plan.order[stripe])
                if (!step.nodes[node].is_slow) ++fast[parent(plan, stripe, node)];
            for (auto [node, count] : fast) REQUIRE(count <= 2);
        }
    });
}

TEST_CASE("share plan: those who have a layer are its seeds, else it comes from the registry once", "[share]") {
    for_plans(5, [](const Step& step, const LayerPlan& plan, unsigned layer) {
        bool somebody = std::any_of(step.nodes.begin(), step.nodes.end(),
                                    [&](const PlannedNode& node) { return node.has[layer]; });
        REQUIRE(plan.from_registry == !somebody);
        REQUIRE((somebody ? !plan.seeds.empty() : plan.seeds.size() == 1));
        for (unsigned seed : plan.seeds) REQUIRE(step.nodes[seed].has[layer] == somebody);
        bool any_fast = std::any_of(step.nodes.begin(), step.nodes.end(), [&](const PlannedNode& node) {
            return !node.is_slow && (!somebody || node.has[layer]);
        });
        for (unsigned seed : plan.seeds) REQUIRE((!any_fast || !step.nodes[seed].is_slow));
    });
}

TEST_CASE("share plan: what owners bring is spread as longest first does", "[share]") {
    std::mt19937 random(6);
    for (int i = 0; i < cases; ++i) {
        Step step = random_step(random);
        std::map<unsigned, std::vector<uint64_t>> brought;
        uint64_t total = 0;
        std::vector<LayerPlan> plans = plan_layers(step.nodes, step.sizes);
        for (size_t layer = 0; layer < plans.size(); ++layer) {
            if (!plans[layer].from_registry) continue;
            brought[plans[layer].seeds.front()].push_back(step.sizes[layer]);
            total += step.sizes[layer];
        }
        auto slow = std::count_if(step.nodes.begin(), step.nodes.end(), [](auto& node) { return node.is_slow; });
        auto all = static_cast<std::ptrdiff_t>(step.nodes.size());
        auto owners = static_cast<uint64_t>(slow == all ? all : all - slow);
        // Whoever took the last, and so the smallest, of its layers had the least before: no more than the mean.
        for (auto& [node, sizes] : brought) {
            uint64_t last = *std::min_element(sizes.begin(), sizes.end());
            uint64_t sum = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
            REQUIRE((sum - last) * owners <= total - last);
        }
    }
}

TEST_CASE("share plan: sources are no more than asked for, without repeats, and the last is a seed", "[share]") {
    for_plans(7, [](const Step& step, const LayerPlan& plan, unsigned layer) {
        unsigned limit = 2 + layer;
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
            for (unsigned node = 0; node < step.nodes.size(); node += 1 + static_cast<unsigned>(members(plan)) / 50) {
                std::vector<unsigned> sources = sources_of(plan, stripe, node, limit);
                bool needs = !step.nodes[node].has[layer] && !is_seed(plan, node);
                REQUIRE(sources.empty() == !needs);
                if (!needs) continue;
                REQUIRE(sources.size() <= limit);
                REQUIRE(std::set<unsigned>(sources.begin(), sources.end()).size() == sources.size());
                REQUIRE(is_seed(plan, sources.back()));
                for (unsigned source : sources) REQUIRE(!waits_for(plan, stripe, source, node));
            }
        REQUIRE(sources_of(plan, 0, static_cast<unsigned>(step.nodes.size())).empty());
    });
}

TEST_CASE("share plan: a node's sources are those above it in its tree, the nearest first", "[share]") {
    for (unsigned nodes : {4U, 9U, 64U, 501U}) {
        Step step = cold(nodes, {1000});
        LayerPlan plan = plan_layers(step.nodes, step.sizes).front();
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
            for (unsigned node : plan.order[stripe]) {
                std::vector<unsigned> above;
                for (unsigned next = node; !is_seed(plan, next);) above.push_back(next = parent(plan, stripe, next));
                REQUIRE(sources_of(plan, stripe, node, nodes) == above);
            }
    }
}

TEST_CASE("share plan: late sources have children, avoid whom they shall, and never wait for the asker",
          "[share]") {
    for_plans(8, [](const Step& step, const LayerPlan& plan, unsigned) {
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
            for (unsigned node = 0; node <= step.nodes.size(); node += 1 + static_cast<unsigned>(members(plan)) / 8) {
                std::vector<unsigned> avoid = sources_of(plan, stripe, node, 2);
                std::vector<unsigned> sources = sources_for_late(plan, stripe, node, avoid);
                REQUIRE(sources.size() <= 4);
                for (unsigned source : sources) {
                    REQUIRE(source != node);
                    REQUIRE(std::find(avoid.begin(), avoid.end(), source) == avoid.end());
                    if (is_seed(plan, source)) continue;
                    REQUIRE(plan.place[stripe][source] < plan.inner);
                    if (node < step.nodes.size() && plan.place[stripe][node] != no_place)
                        REQUIRE(plan.place[stripe][source] < plan.place[stripe][node]);
                }
            }
    });
}

TEST_CASE("share plan: late nodes do not all ask the same", "[share]") {
    Step step = cold(200, {1000});
    LayerPlan plan = plan_layers(step.nodes, step.sizes).front();
    std::map<unsigned, unsigned> asked;
    for (unsigned node = 200; node < 300; ++node) ++asked[sources_for_late(plan, node % 2, node, {}).front()];
    REQUIRE(asked.size() > 30);
    for (auto [node, count] : asked) REQUIRE(count <= 8);
}

TEST_CASE("share plan: layers have different nodes near their roots", "[share]") {
    Step step = cold(100, std::vector<uint64_t>(10, 1000));
    std::set<unsigned> roots;
    for (const LayerPlan& plan : plan_layers(step.nodes, step.sizes))
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe) roots.insert(plan.order[stripe].front());
    REQUIRE(roots.size() >= 18);
}

namespace {

/// How often the layer comes into the nodes `first` to `last` from others, or goes from them to others.
double crossings(const LayerPlan& plan, unsigned first, unsigned last, bool inwards) {
    auto is_inside = [&](unsigned node) { return node >= first && node <= last; };
    double out = 0;
    for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
        for (unsigned node : plan.order[stripe]) {
            bool from = is_inside(parent(plan, stripe, node)), to = is_inside(node);
            if (from != to && to == inwards) out += 1.0 / stripe_count;
        }
    return out;
}

}  // namespace

TEST_CASE("share plan: few of the trees' steps lead into a rack or out of it", "[share]") {
    constexpr unsigned racks = 25, nodes_in_rack = 40;
    Step step = cold(racks * nodes_in_rack, std::vector<uint64_t>(8, 1000));
    step.nodes[500].is_slow = true;
    for (const LayerPlan& plan : plan_layers(step.nodes, step.sizes)) {
        double sum = 0;
        for (unsigned rack = 0; rack < racks; ++rack) {
            unsigned first = rack * nodes_in_rack, last = first + nodes_in_rack - 1;
            CHECK(crossings(plan, first, last, true) <= 5);
            CHECK(crossings(plan, first, last, false) <= 6);
            sum += crossings(plan, first, last, true);
        }
        CHECK(sum / racks <= 4);  // of 40; 38 where they stand in any order
    }
}

TEST_CASE("share plan: several seeds have about as many nodes behind them each", "[share]") {
    Step step = cold(100, {1000});
    for (unsigned node : {3U, 50U, 70U}) step.nodes[node].has[0] = true;
    LayerPlan plan = plan_layers(step.nodes, step.sizes).front();
    std::map<unsigned, unsigned> behind;
    for (unsigned node : plan.order[0]) {
        while (!is_seed(plan, node)) node = parent(plan, 0, node);
        ++behind[node];
    }
    REQUIRE(behind.size() == 3);
    for (auto [seed, count] : behind) REQUIRE((count >= 20 && count <= 50));
}

TEST_CASE("share plan: a step of one node, of two, and of none", "[share]") {
    REQUIRE(plan_layers({}, {1000}).front().seeds.empty());
    Step one = cold(1, {1000});
    REQUIRE(plan_layers(one.nodes, one.sizes).front().seeds == std::vector<unsigned>{0});
    Step two = cold(2, {1000, 2000});
    std::vector<LayerPlan> plans = plan_layers(two.nodes, two.sizes);
    REQUIRE(plans[1].seeds == std::vector<unsigned>{0});  // the largest layer is given first
    REQUIRE(plans[0].seeds == std::vector<unsigned>{1});
    REQUIRE(sources_of(plans[1], 0, 1) == std::vector<unsigned>{0});
}

TEST_CASE("share plan: ten thousand nodes and a hundred layers take less than a second", "[share]") {
    Step step = cold(10'000, {});
    for (unsigned layer = 0; layer < 100; ++layer) step.sizes.push_back(1'000'000 * (layer + 1));
    for (PlannedNode& node : step.nodes) node.has.assign(100, false);
    auto begin = std::chrono::steady_clock::now();
    std::vector<LayerPlan> plans = plan_layers(step.nodes, step.sizes);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    REQUIRE(plans.back().order[1].size() == 9'999);
    REQUIRE(took.count() < 1.0 * berth::fixtures::slowness());
}
