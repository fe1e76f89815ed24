#include "runtime/pull/share/gathering.hh"

#include <algorithm>

namespace berth::pull::share {

namespace {

/// After the node that came last, before the others are told; and after the first one at the latest.
constexpr auto quiet_time = std::chrono::milliseconds(300);
constexpr auto longest = std::chrono::milliseconds(3000);

}  // namespace

bool Gathering::is_empty() const {
    return std::ranges::all_of(members_, [](const Member& member) { return member.is_gone; });
}

void Gathering::take(Connection from, const Message& message, Time now, Step step, std::vector<Outgoing>& out) {
    auto sender = std::ranges::find(members_, from, &Member::connection);
    if (const auto* it = std::get_if<Hello>(&message); it != nullptr && sender == members_.end()) {
        enter(from, *it, now, out);
    } else if (sender != members_.end() && std::holds_alternative<Finished>(message)) {
        sender->is_finished = true;
    } else if (const auto* proved = std::get_if<Done>(&message); proved != nullptr && sender != members_.end()) {
        proved_.push_back(*proved);
        tell_others(from, *proved, out);
    }
    settle(now, step, out);
}

void Gathering::tell_others(Connection from, const Message& message, std::vector<Outgoing>& out) const {
    for (const Member& other : members_)
        if (!other.is_gone && other.connection != from) out.push_back({other.connection, message});
}

void Gathering::lost(Connection from, Time now, Step step, std::vector<Outgoing>& out) {
    auto member = std::ranges::find(members_, from, &Member::connection);
    if (member != members_.end()) {
        member->is_gone = true;
        auto place = static_cast<unsigned>(member - members_.begin());
        if (place < roster_.size()) tell_others(from, Gone{place}, out);
    }
    settle(now, step, out);
}

void Gathering::tick(Time now, Step step, std::vector<Outgoing>& out) { settle(now, step, out); }

void Gathering::enter(Connection from, const Hello& message, Time now, std::vector<Outgoing>& out) {
    if (message.release != release) {
        out.push_back({from, Alone{std::nullopt, "srun's berth is of another release"}});
        return;
    }
    // Nobody who was here serves any more.
    if (is_told_ && is_empty()) *this = Gathering();
    if (members_.empty()) first_ = now;
    last_ = now;
    members_.push_back({from, message.self, message.rank});
    if (!is_told_) return;
    // Nobody asks one that comes later for anything.
    out.push_back({from, Plan{std::nullopt, roster_, {}}});
    for (unsigned place = 0; place < roster_.size(); ++place)
        if (members_[place].is_gone) out.push_back({from, Gone{place}});
    for (const Done& proved : proved_) out.push_back({from, proved});
}

bool Gathering::is_time(Time now, Step step) const {
    auto are_here = static_cast<size_t>(
        std::ranges::count_if(members_, [](const Member& member) { return !member.is_gone; }));
    if (is_told_ || are_here == 0) return false;
    bool are_all = step.missing == 0 && are_here >= step.seen;
    return are_all || now - last_ >= quiet_time || now - first_ >= longest;
}

void Gathering::tell(std::vector<Outgoing>& out) {
    is_told_ = true;
    std::erase_if(members_, [](const Member& member) { return member.is_gone; });
    std::ranges::stable_sort(members_, {}, &Member::rank);
    for (const Member& member : members_) roster_.push_back(member.self);
    for (unsigned i = 0; i < members_.size(); ++i) out.push_back({members_[i].connection, Plan{i, roster_, {}}});
}

/// Who has everything stays for those that have not.
void Gathering::settle(Time now, Step step, std::vector<Outgoing>& out) {
    if (is_time(now, step)) tell(out);
    bool is_over = is_told_ && std::ranges::all_of(members_, [](const Member& member) {
        return member.is_finished || member.is_gone;
    });
    if (!is_over) return;
    for (Member& member : members_)
        if (!member.is_gone) out.push_back({member.connection, Finished{}});
    for (Member& member : members_) member.is_gone = true;
}

}  // namespace berth::pull::share
