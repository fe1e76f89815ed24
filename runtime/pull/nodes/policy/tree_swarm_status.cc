// How far the nodes of a swarm are, by their own word.
#include <algorithm>

#include "runtime/pull/nodes/policy/tree_swarm.hh"

namespace berth::pull::nodes {

namespace {

constexpr auto look_interval = std::chrono::milliseconds(200);
/// A report comes once a second. One alone can be of a moment, and the longer it all takes, the longer are the moments:
/// on a busy link a connection that has lost packets stands still for seconds.
constexpr unsigned fewest_reports = 2;
constexpr auto report_share = std::chrono::seconds(20);  ///< of the time until now, for each further report
/// Bytes that may be on their way to a node, in the buffers of a few connections.
constexpr uint64_t on_the_way = 1 << 20;
/// What has to be gained by it before another node brings a layer too.
constexpr double worth_a_request = 5;  // seconds
/// An owner lags more than so many times as far as the node in the middle: else all lag, as on a busy machine.
constexpr uint64_t lags_alone = 4;

uint64_t middle_of(std::vector<uint64_t> numbers) {
    if (numbers.empty()) return 0;
    auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
    std::nth_element(numbers.begin(), middle, numbers.end());
    return *middle;
}

/// In a row, before they count.
unsigned reports_needed(std::chrono::steady_clock::duration since_start) {
    return std::max(fewest_reports, static_cast<unsigned>(std::max<int64_t>(0, since_start / report_share)));
}

}  // namespace

void TreeSwarm::take_progress(unsigned place, const Progress& progress) {
    Node& node = nodes_[place];
    uint64_t before = node.progress.registry + node.progress.peers, bytes = progress.registry + progress.peers;
    double seconds = std::chrono::duration<double>(now_ - node.measured).count();
    if (node.measured != Time{} && seconds > 0 && bytes >= before)
        node.rate = static_cast<uint64_t>(static_cast<double>(bytes - before) / seconds);
    if (progress.sent > node.progress.sent) node.has_sent = now_;
    node.measured = now_;
    node.progress = progress;
    note_layers(place, progress.layers);
    look_around();
    judge_speed(place);
    judge_owner(place);
    StepStatus answer = status_;
    answer.is_told_here = place == teller_;
    send(place, std::move(answer));
}

/// Makes status_ anew, five times a second at most.
void TreeSwarm::look_around() {
    if (looked_ != Time{} && now_ - looked_ < look_interval) return;
    looked_ = now_;
    status_ = {};
    teller_.reset();
    status_.ready = finished_;
    std::vector<uint64_t> rates, lags;
    uint64_t most_left = 0;
    for (unsigned place = 0; place < members_.size(); ++place) {
        const Node& node = nodes_[place];
        status_.registry += node.progress.registry;
        status_.peers += node.progress.peers;
        if (members_[place].stage != Stage::planned) continue;
        ++status_.nodes;
        if (!teller_) teller_ = place;
        status_.rate += node.rate;
        if (node.rate > 0) rates.push_back(node.rate);
        lags.push_back(node.progress.behind);
        uint64_t got = std::min(node.progress.registry + node.progress.peers, node.total);
        if (uint64_t left = node.total - got; left > most_left || status_.last.empty()) {
            most_left = left;
            status_.last = members_[place].self.node;
            status_.last_bytes = got;
            status_.last_total = node.total;
        }
    }
    status_.nodes += status_.ready;
    status_.median = middle_of(std::move(rates));
    best_median_ = std::max(best_median_, status_.median);
    middle_lag_ = middle_of(std::move(lags));
}

/// A node is slow that gets less than half of what the one in the middle gets, though its sources have more for it
/// than can be on its way. (Without that it waits for a node before it, and has done nothing.) It gets its children
/// back when it is not slow any more: else after a while most nodes have none, and all ask the owner.
void TreeSwarm::judge_speed(unsigned place) {
    Node& node = nodes_[place];
    if (members_[place].stage != Stage::planned) return;
    bool is_behind = node.rate < status_.median / 2;
    bool lags = node.progress.behind > std::max(status_.median, on_the_way);
    bool is_other = node.is_slow ? !is_behind : is_behind && lags;
    node.other_reports = is_other ? node.other_reports + 1 : 0;
    if (node.other_reports < reports_needed(now_ - first_have_)) return;
    node.is_slow = !node.is_slow;
    node.other_reports = 0;
    take_children(place);
}

/// An owner holds the others up when it gets less than half of what nodes have got here, and that for no want of
/// sources. What the others get just now says nothing: once they have the other layers, they get this one, as slowly as
/// it does.
void TreeSwarm::judge_owner(unsigned place) {
    Node& node = nodes_[place];
    uint64_t usual_lag = std::max({best_median_, on_the_way, lags_alone * middle_lag_});
    bool holds_up = node.rate < best_median_ / 2 && node.progress.behind > usual_lag;
    node.holding_reports = members_[place].stage == Stage::planned && holds_up ? node.holding_reports + 1 : 0;
    if (node.holding_reports >= reports_needed(now_ - first_have_)) take_over_from(place);
}

/// What it brings, all others wait for in the end. Another one brings it too where that is much sooner, and whoever has
/// it first, has it for all. Once for each layer.
void TreeSwarm::take_over_from(unsigned place) {
    double left = seconds_left(place);
    for (unsigned number = 0; number < layers_.size(); ++number) {
        Layer& layer = layers_[number];
        if (layer.owner != place || layer.sum || layer.slow_owner) continue;
        double anew = static_cast<double>(layer.size) / static_cast<double>(std::max<uint64_t>(1, best_median_));
        if (left <= 2 * anew || left <= anew + worth_a_request) continue;
        std::optional<unsigned> next = next_owner(number);
        if (!next || nodes_[*next].is_distrusted || nodes_[*next].is_slow) continue;
        layer.slow_owner = place;
        replace_owner(number);
    }
}

/// Until the node has all that it brings from the registry, if that goes on as until now. (It gets the other layers by
/// the same link, so that it brings less than it gets.)
double TreeSwarm::seconds_left(unsigned place) const {
    uint64_t whole = 0, all = 0, brought = nodes_[place].progress.registry;
    for (const Layer& layer : layers_) {
        if (layer.owner != place) continue;
        all += layer.size;
        if (layer.sum) whole += layer.size;
    }
    uint64_t left = all - std::clamp(brought, whole, all);
    double seconds = std::chrono::duration<double>(now_ - first_have_).count();
    return static_cast<double>(left) * seconds / static_cast<double>(std::max<uint64_t>(1, brought));
}

/// Those below the node in the layer's trees.
std::set<unsigned> TreeSwarm::children(unsigned layer, unsigned place) const {
    std::set<unsigned> out;
    std::optional<unsigned> number = members_[place].number;
    for (unsigned stripe = 0; number && stripe < stripe_count; ++stripe)
        for (unsigned child : children_of(plan_[layer], stripe, *number)) out.insert(numbered_[child]);
    return out;
}

/// Those below the node get other sources.
void TreeSwarm::take_children(unsigned place) {
    for (unsigned layer = 0; layer < layers_.size(); ++layer)
        for (unsigned child : children(layer, place)) tell_role(layer, child);
}

}  // namespace berth::pull::nodes
