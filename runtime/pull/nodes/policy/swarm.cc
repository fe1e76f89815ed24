#include "runtime/pull/nodes/policy/swarm.hh"

#include <algorithm>

namespace berth::pull::nodes {

namespace {

/// After the last message, for nodes that have not come yet, before those that have everything are released.
constexpr auto end_patience = std::chrono::seconds(2);

}  // namespace

void Swarm::send(unsigned place, Message message) {
    out_->push_back({members_[place].connection, std::move(message)});
}

void Swarm::move(unsigned place, Stage stage) {
    --counts_[static_cast<size_t>(members_[place].stage)];
    members_[place].stage = stage;
    ++counts_[static_cast<size_t>(stage)];
}

size_t Swarm::count(std::initializer_list<Stage> wanted) const {
    size_t out = 0;
    for (Stage stage : wanted) out += counts_[static_cast<size_t>(stage)];
    return out;
}

void Swarm::take(Connection from, const Message& message, Time now, Step step, std::vector<Outgoing>& out) {
    out_ = &out, now_ = now;
    // Those that only serve go on telling their progress.
    if (!std::holds_alternative<Progress>(message)) last_message_ = now;
    auto known = places_.find(from);
    if (const auto* hello = std::get_if<Hello>(&message)) {
        if (known == places_.end()) add(from, *hello);
    } else if (known != places_.end() && is_present(known->second)) {
        hear(known->second, message);
    }
    settle(step);
}

void Swarm::lost(Connection from, Time now, Step step, std::vector<Outgoing>& out) {
    auto known = places_.find(from);
    if (known == places_.end()) return;
    out_ = &out, now_ = now;
    last_message_ = now;
    unsigned place = known->second;
    places_.erase(known);
    leave(place);
    settle(step);
}

void Swarm::tick(Time now, Step step, std::vector<Outgoing>& out) {
    out_ = &out, now_ = now;
    look();
    settle(step);
}

void Swarm::add(Connection from, const Hello& hello) {
    last_arrival_ = now_;
    if (count({Stage::gone}) == members_.size()) restart();
    if (members_.empty()) first_arrival_ = now_;
    auto place = static_cast<unsigned>(members_.size());
    members_.push_back({from, hello.self, hello.rank, hello.link, Stage::waiting, std::nullopt});
    ++counts_[static_cast<size_t>(Stage::waiting)];
    places_[from] = place;
    add_node();
    if (hello.release != release) return leave_alone(place, "srun's berth is of another release");
    come(place);
}

void Swarm::restart() {
    members_.clear();
    places_.clear();
    counts_ = {};
    to_plan_.clear();
    numbered_.clear();
    finished_ = 0;
    is_planned_ = false;
}

void Swarm::settle(Step step) {
    if (!is_planned_ && count({Stage::ready}) > 0 && is_time_to_plan(step)) begin();
    send_rest();
    if (is_planned_) send_plans();
    bool unfinished = count({Stage::waiting, Stage::asked, Stage::told, Stage::ready, Stage::planned}) > 0;
    bool are_there = count({Stage::finished, Stage::alone}) > 0;
    if (are_there && !unfinished && (step.missing == 0 || now_ - last_message_ >= end_patience)) end();
}

void Swarm::begin() {
    is_planned_ = true;
    for (unsigned place = 0; place < members_.size(); ++place)
        if (members_[place].stage == Stage::ready) numbered_.push_back(place);
    // Neighbours in Slurm's order are near each other, and so they are in the plan.
    std::ranges::stable_sort(numbered_, {}, [&](unsigned place) { return members_[place].rank; });
    for (unsigned number = 0; number < numbered_.size(); ++number) members_[numbered_[number]].number = number;
    to_plan_.assign(numbered_.begin(), numbered_.end());
    make_plan();
}

void Swarm::send_plans() {
    for (size_t sent = 0; sent < at_once && !to_plan_.empty(); ++sent) {
        unsigned place = to_plan_.front();
        to_plan_.pop_front();
        if (members_[place].stage != Stage::ready) continue;
        move(place, Stage::planned);
        send_plan(place);
    }
}

void Swarm::finish(unsigned place) {
    if (members_[place].stage != Stage::planned) return;
    move(place, Stage::finished);
    ++finished_;
}

void Swarm::leave(unsigned place) {
    Stage before = members_[place].stage;
    move(place, Stage::gone);
    // Else it had been released.
    if (before != Stage::gone) left(place, before);
}

void Swarm::leave_alone(unsigned place, const std::string& reason) {
    send(place, Alone{std::nullopt, reason});
    move(place, Stage::alone);
}

void Swarm::end() {
    for (unsigned place = 0; place < members_.size(); ++place)
        if (members_[place].stage == Stage::finished || members_[place].stage == Stage::alone) {
            send(place, Finished{});
            move(place, Stage::gone);
        }
}

}  // namespace berth::pull::nodes
