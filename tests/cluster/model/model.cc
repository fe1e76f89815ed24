#include "tests/cluster/model/model.hh"

#include <algorithm>
#include <random>

#include "tests/cluster/model/swarm.hh"

namespace berth::cluster_model {
namespace {

constexpr unsigned sbcast_fanout = 8;
constexpr double sbcast_block = 8 << 20;

/// The time from when `sender` has a block until the nodes from `first` to `last` have it and have answered. Slurm
/// divides the list among the children; each has the first of its part, and sends on to the rest.
double sbcast_block_time(const Setting& setting, const std::vector<double>& rates, size_t sender, size_t first,
                         size_t last) {
    size_t count = last - first, children = std::min<size_t>(sbcast_fanout, count);
    double slowest = 0;
    for (size_t i = 0; i < children; ++i) {
        size_t begin = first + count * i / children, end = first + count * (i + 1) / children;
        double rate = std::min(rates[sender] / static_cast<double>(children), rates[begin]);
        double here = sbcast_block / rate + 2 * setting.latency;
        slowest = std::max(slowest, here + sbcast_block_time(setting, rates, begin, begin + 1, end));
    }
    return slowest;
}

}  // namespace

Outcome simulate(const Setting& setting) { return Swarm(setting).run(); }

std::vector<double> sbcast(const Setting& setting) {
    std::vector<double> rates(setting.nodes, setting.link);
    for (size_t node = 0; node < setting.slow.size(); ++node)
        if (setting.slow[node]) rates[node] *= setting.slow_rate;
    uint64_t size = 0;
    for (uint64_t layer : setting.layers) size += layer;
    double blocks = static_cast<double>(size) / sbcast_block;
    return std::vector<double>(setting.nodes, blocks * sbcast_block_time(setting, rates, 0, 1, setting.nodes));
}

double percentile(std::vector<double> done, double share) {
    done.erase(std::remove_if(done.begin(), done.end(), [](double when) { return when < 0; }), done.end());
    if (done.empty()) return -1;
    std::sort(done.begin(), done.end());
    auto at = static_cast<size_t>(share * static_cast<double>(done.size()));
    return done[std::min(at, done.size() - 1)];
}

std::vector<bool> random_slow(unsigned nodes, double share, unsigned seed) {
    std::vector<bool> out(nodes, false);
    std::mt19937 random(seed);
    auto count = static_cast<unsigned>(share * nodes + 0.5);
    if (nodes > 1) count = std::clamp(count, 1U, nodes - 1);
    while (count > 0) {
        unsigned node = 1 + static_cast<unsigned>(random() % (nodes - 1));
        count -= !out[node];
        out[node] = true;
    }
    return out;
}

}  // namespace berth::cluster_model
