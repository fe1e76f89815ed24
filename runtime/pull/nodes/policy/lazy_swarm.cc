#include "runtime/pull/nodes/policy/lazy_swarm.hh"

namespace berth::pull::nodes {

namespace {

/// After the node that came last, before the others are told; and after the first one at the latest.
constexpr auto quiet_time = std::chrono::milliseconds(300);
constexpr auto longest = std::chrono::milliseconds(3000);

}  // namespace

void LazySwarm::come(unsigned place) {
    move(place, Stage::ready);
    if (is_planned_) to_plan_.push_back(place);
}

bool LazySwarm::is_time_to_plan(Step step) const {
    bool are_all = step.missing == 0 && count({Stage::ready}) >= step.seen;
    return are_all || now_ - last_arrival_ >= quiet_time || now_ - first_arrival_ >= longest;
}

/// Nobody asks one that comes later for anything.
void LazySwarm::send_plan(unsigned place) {
    Plan plan{.own = members_[place].number};
    for (unsigned peer : numbered_) plan.peers.push_back(members_[peer].self);
    send(place, std::move(plan));
    if (members_[place].number) return;
    for (unsigned number = 0; number < numbered_.size(); ++number)
        if (members_[numbered_[number]].stage == Stage::gone) send(place, Gone{number});
    for (const Done& done : done_) send(place, done);
}

void LazySwarm::hear(unsigned place, const Message& message) {
    if (std::holds_alternative<Finished>(message)) return finish(place);
    const auto* done = std::get_if<Done>(&message);
    if (done == nullptr) return;
    done_.push_back(*done);
    tell_others(place, *done);
}

void LazySwarm::left(unsigned place, Stage) {
    if (members_[place].number) tell_others(place, Gone{*members_[place].number});
}

void LazySwarm::restart() {
    Swarm::restart();
    done_.clear();
}

void LazySwarm::tell_others(unsigned place, const Message& message) {
    for (unsigned other = 0; other < members_.size(); ++other)
        if (other != place && is_present(other)) send(other, message);
}

}  // namespace berth::pull::nodes
