// Prints the tables of docs/cluster.md: `make cluster-model`. Everything in them is calculated.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/pull/nodes/policy/plan.hh"
#include "tests/cluster/model/model.hh"

using namespace berth::cluster_model;

namespace {

/// An image of 7.1 GB as squashfs, in 20 layers of which two have more than half.
std::vector<uint64_t> image() {
    std::vector<uint64_t> out = {2'600'000'000, 1'500'000'000, 900'000'000, 700'000'000, 500'000'000, 300'000'000,
                                 200'000'000,   150'000'000,   100'000'000, 70'000'000,  30'000'000,  20'000'000,
                                 12'000'000,    8'000'000,     5'000'000,   3'000'000,   1'000'000,   500'000,
                                 400'000,       100'000};
    return out;
}

double total(const std::vector<uint64_t>& layers) {
    double out = 0;
    for (uint64_t layer : layers) out += static_cast<double>(layer);
    return out;
}

/// Chunks of 1 MiB; with 10,000 nodes of 4 MiB, which makes every hop take four times as long as it does.
Setting setting(unsigned nodes, Shape shape = Shape::two_trees) {
    Setting out{.nodes = nodes, .layers = image(), .shape = shape};
    if (nodes > 2'000 && shape == Shape::two_trees) out.chunk = 4U << 20;
    if (shape == Shape::each_for_itself) out.chunk = nodes > 100 ? 64U << 20 : 4U << 20;
    return out;
}

double ideal(const Setting& one) { return total(one.layers) / one.link; }

std::string ratios(const Setting& one, const std::vector<double>& done, const std::vector<double>& at = {0.5, 0.99}) {
    std::string out;
    for (double share : at) {
        char text[40];
        std::snprintf(text, sizeof text, "%s%.2f", out.empty() ? "" : " / ", percentile(done, share) / ideal(one));
        out += text;
    }
    return out;
}

std::string simulated(const Setting& one) { return ratios(one, simulate(one).done); }

void row(const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) std::printf("| %s ", cell.c_str());
    std::printf("|\n");
    std::fflush(stdout);
}

void head(const std::string& title, const std::vector<std::string>& cells) {
    std::printf("\n%s\n\n", title.c_str());
    row(cells);
    std::printf("|");
    for (size_t i = 0; i < cells.size(); ++i) std::printf("---|");
    std::printf("\n");
}

const std::vector<unsigned> sizes = {8, 64, 1'000, 10'000};

void shapes() {
    head("p50 / p99 of the time until a node has everything, as multiples of S/B; all nodes alike",
         {"nodes", "two trees", "chain", "sbcast's tree", "each for itself"});
    for (unsigned nodes : sizes) {
        Setting trees = setting(nodes);
        row({std::to_string(nodes), simulated(trees), simulated(setting(nodes, Shape::chain)),
             ratios(trees, sbcast(trees)), simulated(setting(nodes, Shape::each_for_itself))});
    }
}

Setting with_slow(Setting one, bool known, Watch watch) {
    one.slow = random_slow(one.nodes, 0.01, 1);
    one.slow_known = known;
    one.watch = watch;
    return one;
}

/// With the 90th and the 98th percentile: the last hundredth are the slow ones themselves, on their own links.
std::string with_tail(const Setting& one, const std::vector<double>& done) {
    return ratios(one, done, {0.5, 0.9, 0.98, 0.99});
}

void slow_nodes() {
    head("p50 / p90 / p98 / p99 with 1% of the nodes (at least one) at a quarter of the rate",
         {"nodes", "known when planned", "found after a second", "never found", "chain", "sbcast's tree"});
    for (unsigned nodes : sizes) {
        Setting trees = setting(nodes);
        Setting chain = with_slow(setting(nodes, Shape::chain), false, Watch::none);
        std::vector<std::string> cells = {std::to_string(nodes)};
        auto add = [&](const Setting& one) { cells.push_back(with_tail(one, simulate(one).done)); };
        add(with_slow(trees, true, Watch::none));
        add(with_slow(trees, false, Watch::node));
        add(with_slow(trees, false, Watch::none));
        add(chain);
        cells.push_back(with_tail(trees, sbcast(chain)));
        row(cells);
    }
}

std::string seconds(double value) {
    char text[40];
    std::snprintf(text, sizeof text, value < 100 ? "%.1f s" : "%.0f s", value);
    return text;
}

std::string downloads(const Outcome& outcome, const Setting& one) {
    char text[40];
    std::snprintf(text, sizeof text, "%.2f", static_cast<double>(outcome.from_registry) / total(one.layers));
    return text;
}

/// p50, p99, the last one, and how often the registry sent the image.
void disturbed(const std::string& what, const Setting& one) {
    Outcome outcome = simulate(one);
    std::vector<double> done = outcome.done;
    row({std::to_string(one.nodes), what, ratios(one, done), seconds(percentile(done, 1)), downloads(outcome, one),
         std::to_string(outcome.moves)});
}

/// `count` nodes at `when`, among them the owner of the largest layer if `owner`.
Setting with_lost(Setting one, unsigned count, double when, bool owner) {
    auto owners = static_cast<unsigned>(one.layers.size());  // the first nodes, one for each layer
    for (unsigned i = 0; i < count; ++i) one.lost.emplace_back(owners + i * 97 % (one.nodes - owners), when);
    if (owner) one.lost.front().first = 0;
    return one;
}

void disturbances() {
    head("Nodes that come late and nodes that are lost",
         {"nodes", "what happens", "p50 / p99", "the last node", "images from the registry", "changes of source"});
    for (unsigned nodes : {64U, 1'000U}) {
        Setting one = setting(nodes);
        disturbed("nothing", one);
        disturbed("1% (at least 1) are lost after 2 s", with_lost(one, std::max(1U, nodes / 100), 2, false));
        disturbed("one of them is the owner of the largest layer", with_lost(one, std::max(1U, nodes / 100), 2, true));
        Setting late = one;
        for (unsigned i = 0; i < std::max(1U, nodes / 100); ++i) late.late.emplace_back(nodes - 1 - i, 3.0);
        disturbed("1% (at least 1) come after 3 s", late);
    }
}

/// Nodes with `link` and a registry with 10 Gb/s; owners convert 400 MB/s, which is some eight CPUs.
std::vector<std::string> sized(unsigned nodes, double link) {
    Setting one = setting(nodes);
    one.link = link;
    one.conversion = 400e6;
    Setting alone = setting(nodes, Shape::each_for_itself);
    alone.link = link;
    alone.conversion = 400e6;
    return {seconds(percentile(simulate(one).done, 0.99)), seconds(percentile(simulate(alone).done, 0.99))};
}

void sizing() {
    head("Until 99% of the nodes have 7.1 GB; a registry with 10 Gb/s, 400 MB/s converted by a node",
         {"nodes", "10 Gb/s a node: shared", "each for itself", "100 Gb/s a node: shared", "each for itself"});
    for (unsigned nodes : {10U, 100U, 1'000U, 10'000U}) {
        std::vector<std::string> cells = {std::to_string(nodes)};
        for (double link : {1.25e9, 12.5e9})
            for (const std::string& cell : sized(nodes, link)) cells.push_back(cell);
        row(cells);
    }
}

/// A run of tests/cluster/laboratory.py with --nodes, --rate (Mbit/s), --megabytes and --mtu.
struct Run {
    unsigned nodes;
    double rate, megabytes, mtu;
};

/// Four layers, each half of the one before, and links whose rate counts the headers: 14 bytes of Ethernet beside the
/// MTU, and 52 of IP and TCP in it. S/B is as there, without them.
Setting of_laboratory(const Run& run) {
    constexpr double halves = 1 + 0.5 + 0.25 + 0.125;
    double bytes_a_second = run.rate * 1e6 / 8 * (run.mtu - 52) / (run.mtu + 14);
    Setting out{.nodes = run.nodes, .link = bytes_a_second, .registry = bytes_a_second};
    for (double weight = 1; out.layers.size() < 4; weight /= 2)
        out.layers.push_back(static_cast<uint64_t>(run.megabytes * (1 << 20) * weight / halves));
    out.chunk = 64U << 10;
    return out;
}

/// How often the image goes into a rack, by the racks of the nodes: the mean of all racks, and the most.
std::string into_racks(const std::vector<unsigned>& rack, unsigned racks) {
    using namespace berth::pull::nodes;
    std::vector<uint64_t> layers = image();
    std::vector<PlannedNode> nodes(rack.size(), PlannedNode{std::vector<bool>(layers.size())});
    std::vector<LayerPlan> plans = plan_layers(nodes, layers);
    std::vector<double> bytes(racks);
    for (size_t layer = 0; layer < layers.size(); ++layer)
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
            for (unsigned node : plans[layer].order[stripe])
                if (rack[node] != rack[sources_of(plans[layer], stripe, node).front()])
                    bytes[rack[node]] += static_cast<double>(layers[layer]) / stripe_count;
    double whole = total(layers), sum = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    char text[40];
    std::snprintf(text, sizeof text, "%.1f / %.1f", sum / racks / whole,
                  *std::max_element(bytes.begin(), bytes.end()) / whole);
    return text;
}

void racks() {
    head("How often the image goes into a rack, mean / most",
         {"nodes", "in a rack", "numbered rack by rack", "numbered at random"});
    for (auto [nodes, size] : {std::pair(64U, 16U), std::pair(1'000U, 40U), std::pair(10'000U, 40U)}) {
        std::vector<unsigned> rack(nodes);
        for (unsigned node = 0; node < nodes; ++node) rack[node] = node / size;
        std::string in_order = into_racks(rack, nodes / size);
        std::shuffle(rack.begin(), rack.end(), std::mt19937(1));
        row({std::to_string(nodes), std::to_string(size), in_order, into_racks(rack, nodes / size)});
    }
}

void laboratory() {
    head("p50 / p99 as multiples of S/B, where S/B counts no headers, for the laboratory",
         {"nodes", "Mbit/s", "MiB", "MTU", "two trees"});
    for (const Run& run : {Run{8, 50, 256, 1500}, Run{16, 20, 256, 1500}, Run{64, 5, 256, 1500}, Run{64, 7, 256, 1500},
                           Run{8, 50, 256, 9000}, Run{16, 20, 256, 9000}, Run{64, 7, 256, 9000}}) {
        Setting one = of_laboratory(run);
        std::vector<double> done = simulate(one).done;
        one.link = run.rate * 1e6 / 8;
        std::vector<std::string> cells;
        for (double number : {static_cast<double>(run.nodes), run.rate, run.megabytes, run.mtu})
            cells.push_back(std::to_string(static_cast<int>(number)));
        cells.push_back(ratios(one, done));
        row(cells);
    }
}

}  // namespace

int main(int count, char** words) {
    std::string only = count > 1 ? words[1] : "";
    const std::pair<const char*, void (*)()> tables[] = {
        {"shapes", shapes}, {"slow", slow_nodes}, {"disturbed", disturbances}, {"sizing", sizing},
        {"racks", racks}, {"laboratory", laboratory}};
    for (auto [name, print] : tables)
        if (only.empty() || only == name) print();
}
