// How far the nodes of a swarm are, by their own word.
#include <algorithm>

#include "runtime/pull/share/swarm.hh"

namespace berth::pull::share {

namespace {

constexpr auto look_interval = std::chrono::milliseconds(200);
/// A report comes once a second. One alone can be of a moment, and the longer it all takes, the longer are the moments:
/// on a busy link a connection that has lost packets stands still for seconds.
constexpr unsigned fewest_reports = 2;
constexpr auto report_share = std::chrono::seconds(20);  ///< of the time until now, for each further report
/// Bytes that may be on their way to a node, in the buffers of a few connections.
constexpr uint64_t on_the_way = 1 << 20;

uint64_t middle_of(std::vector<uint64_t> numbers) {
    if (numbers.empty()) return 0;
    auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
    std::nth_element(numbers.begin(), middle, numbers.end());
    return *middle;
}

}  // namespace

void Swarm::take_progress(unsigned place, const Progress& progress, Time now) {
    Member& member = members_[place];
    uint64_t before = member.progress.registry + member.progress.peers, bytes = progress.registry + progress.peers;
    double seconds = std::chrono::duration<double>(now - member.measured).count();
    if (member.measured != Time{} && seconds > 0 && bytes >= before)
        member.rate = static_cast<uint64_t>(static_cast<double>(bytes - before) / seconds);
    if (progress.sent > member.progress.sent) member.has_sent = now;
    member.measured = now;
    member.progress = progress;
    look_around(now);
    judge_speed(place, now);
    StepStatus answer = status_;
    answer.is_told_here = place == teller_;
    send(place, std::move(answer));
}

/// Makes status_ anew, five times a second at most.
void Swarm::look_around(Time now) {
    if (looked_ != Time{} && now - looked_ < look_interval) return;
    looked_ = now;
    status_ = {};
    teller_.reset();
    status_.ready = finished_;
    std::vector<uint64_t> rates;
    uint64_t most_left = 0;
    for (unsigned place = 0; place < members_.size(); ++place) {
        const Member& member = members_[place];
        status_.registry += member.progress.registry;
        status_.peers += member.progress.peers;
        if (member.stage != Stage::planned) continue;
        ++status_.nodes;
        if (!teller_) teller_ = place;
        status_.rate += member.rate;
        if (member.rate > 0) rates.push_back(member.rate);
        uint64_t got = std::min(member.progress.registry + member.progress.peers, member.total);
        if (uint64_t left = member.total - got; left > most_left || status_.last.empty()) {
            most_left = left;
            status_.last = member.self.node;
            status_.last_bytes = got;
            status_.last_total = member.total;
        }
    }
    status_.nodes += status_.ready;
    status_.median = middle_of(std::move(rates));
}

/// A node is slow that gets less than half of what the one in the middle gets, though its sources have more for it
/// than can be on its way. (Without that it waits for a node before it, and has done nothing.) It gets its children
/// back when it is not slow any more: else after a while most nodes have none, and all ask the owner.
void Swarm::judge_speed(unsigned place, Time now) {
    Member& member = members_[place];
    if (member.stage != Stage::planned) return;
    bool is_behind = member.rate < status_.median / 2;
    bool lags = member.progress.behind > std::max(status_.median, on_the_way);
    bool is_other = member.is_slow ? !is_behind : is_behind && lags;
    member.other_reports = is_other ? member.other_reports + 1 : 0;
    auto needed = std::max<int64_t>(fewest_reports, (now - first_have_) / report_share);
    if (member.other_reports < needed) return;
    member.is_slow = !member.is_slow;
    member.other_reports = 0;
    take_children(place);
}

/// Those below the node in the layer's trees.
std::set<unsigned> Swarm::children(unsigned layer, unsigned place) const {
    std::set<unsigned> out;
    std::optional<unsigned> number = members_[place].number;
    for (unsigned stripe = 0; number && stripe < stripe_count; ++stripe)
        for (unsigned child : children_of(plan_[layer], stripe, *number)) out.insert(numbered_[child]);
    return out;
}

/// Those below the node get other sources.
void Swarm::take_children(unsigned place) {
    for (unsigned layer = 0; layer < layers_.size(); ++layer)
        for (unsigned child : children(layer, place)) tell_role(layer, child);
}

}  // namespace berth::pull::share
