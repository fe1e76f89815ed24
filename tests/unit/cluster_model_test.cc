// The model of a cold start on many nodes, at sizes that take seconds: what docs/cluster.md says holds, and the model
// agrees with what can be calculated by hand.
#include "tests/cluster/model/model.hh"

#include <algorithm>
#include <numeric>

#include "tests/catch.hh"

using namespace berth::cluster_model;

namespace {

/// 800 MB in chunks of 1 MiB.
Setting cold(unsigned nodes, Shape shape = Shape::two_trees) {
    return {.nodes = nodes, .layers = {400'000'000, 250'000'000, 100'000'000, 50'000'000}, .shape = shape};
}

double total(const Setting& one) {
    return static_cast<double>(std::accumulate(one.layers.begin(), one.layers.end(), uint64_t{0}));
}

double ratio(const Setting& one, const Outcome& outcome, double share) {
    return percentile(outcome.done, share) * one.link / total(one);
}

size_t finished(const Outcome& outcome) {
    return static_cast<size_t>(
        std::count_if(outcome.done.begin(), outcome.done.end(), [](double when) { return when >= 0; }));
}

}  // namespace

TEST_CASE("cluster model: one node takes S/B, and so do nodes that pull alone from a registry with enough for all",
          "[share][model]") {
    Setting one = cold(1);
    CHECK(ratio(one, simulate(one), 1) == Approx(1).margin(0.02));
    Setting eight = cold(8, Shape::each_for_itself);
    eight.registry = 8 * eight.link;
    CHECK(ratio(eight, simulate(eight), 1) == Approx(1).margin(0.02));
    eight.registry = eight.link;
    Outcome outcome = simulate(eight);
    CHECK(ratio(eight, outcome, 0.5) == Approx(8).margin(0.1));
    CHECK(outcome.from_registry == Approx(8 * total(eight)).epsilon(0.001));
}

TEST_CASE("cluster model: a chain takes a chunk's time for each node more", "[share][model]") {
    Setting chain = cold(50, Shape::chain);
    chain.layers = {800ULL << 20};
    double chunk = static_cast<double>(chain.chunk) / chain.link;
    double last = 800 * chunk + 49 * (chunk + chain.latency) + chain.latency;
    CHECK(simulate(chain).done.back() == Approx(last).epsilon(0.01));
}

TEST_CASE("cluster model: sbcast's tree takes a block's time for each child at each level", "[share][model]") {
    Setting one = cold(64);
    one.latency = 0;
    CHECK(percentile(sbcast(one), 0.5) * one.link / total(one) == Approx(15).margin(0.1));
    one.nodes = 1'000;
    CHECK(percentile(sbcast(one), 0.5) * one.link / total(one) == Approx(25).margin(0.1));
}

TEST_CASE("cluster model: two trees bring all nodes their bytes in little more than S/B, for one download",
          "[share][model]") {
    for (unsigned nodes : {2U, 7U, 64U, 301U}) {
        Setting one = cold(nodes);
        Outcome outcome = simulate(one);
        INFO(nodes << " nodes");
        CHECK(finished(outcome) == nodes);
        CHECK(ratio(one, outcome, 0.99) <= 1.15);
        CHECK(ratio(one, outcome, 0) >= 0.99);
        CHECK(outcome.from_registry == Approx(total(one)).epsilon(0.001));
    }
}

TEST_CASE("cluster model: slow nodes do not make the others slow", "[share][model]") {
    Setting one = cold(200);
    one.slow = random_slow(one.nodes, 0.01, 7);
    Outcome outcome = simulate(one);
    CHECK(finished(outcome) == one.nodes);
    CHECK(ratio(one, outcome, 0.5) <= 1.1);
    CHECK(ratio(one, outcome, 0.98) <= 1.3);
    CHECK(ratio(one, outcome, 1) <= 4.3);  // a slow one's own link
    // In a chain they do.
    Setting chain = one;
    chain.shape = Shape::chain;
    CHECK(ratio(chain, simulate(chain), 0.9) >= 3.9);
}

TEST_CASE("cluster model: a slow node that the plan took for a fast one is left by its children", "[share][model]") {
    std::vector<double> medians;
    for (unsigned seed = 1; seed <= 5; ++seed) {
        Setting one = cold(200);
        one.layers = {4'000'000'000};
        one.chunk = 4U << 20;
        one.slow = random_slow(one.nodes, 0.01, seed);
        one.slow_known = false;
        one.watch = Watch::none;
        double stayed = ratio(one, simulate(one), 0.97);
        one.watch = Watch::node;
        Outcome outcome = simulate(one);
        CHECK(finished(outcome) == one.nodes);
        CHECK(outcome.moves > 0);
        CHECK(ratio(one, outcome, 0.97) < stayed);
        medians.push_back(ratio(one, outcome, 0.5));
    }
    // A slow node by the root has most of the others below it until it is found: 1.4.
    std::ranges::sort(medians);
    CHECK(medians[2] <= 1.1);
    CHECK(medians[4] <= 1.5);
}

TEST_CASE("cluster model: all who are left finish when nodes are lost; the registry is asked again only for an owner",
          "[share][model]") {
    Setting one = cold(64);
    one.lost = {{20, 0.2}, {40, 0.3}, {63, 0.4}};
    Outcome outcome = simulate(one);
    CHECK(finished(outcome) == 61);
    CHECK(outcome.from_registry == Approx(total(one)).epsilon(0.001));
    one.lost.emplace_back(0, 0.3);  // brings the largest layer
    outcome = simulate(one);
    CHECK(finished(outcome) == 60);
    CHECK(outcome.from_registry > 1.02 * total(one));
    CHECK(outcome.from_registry <= total(one) + static_cast<double>(one.layers[0] + 4 * one.chunk));
}

TEST_CASE("cluster model: a late node gets everything, and takes nothing from the registry", "[share][model]") {
    Setting one = cold(64);
    one.late = {{63, 0.3}, {62, 5}};
    Outcome outcome = simulate(one);
    CHECK(finished(outcome) == 64);
    CHECK(outcome.from_registry == Approx(total(one)).epsilon(0.001));
    CHECK(outcome.done[62] - 5 <= 1.5 * total(one) / one.link);
}

TEST_CASE("cluster model: late nodes do not all take from the owner", "[share][model]") {
    Setting one = cold(64);
    for (unsigned node = 48; node < 64; ++node) one.late.emplace_back(node, 5);
    Outcome outcome = simulate(one);
    CHECK(finished(outcome) == 64);
    CHECK(percentile(outcome.done, 1) - 5 <= 3 * total(one) / one.link);
}
