#include "runtime/container/start_event.hh"

#include <algorithm>
#include <utility>

#include "runtime/base/debug_log.hh"
#include "runtime/telemetry/event_cause.hh"

namespace berth {

namespace {

uint64_t microseconds(std::chrono::steady_clock::duration time) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

}  // namespace

StartEvent::StartEvent(const plan::Site& site, const plan::Caller& caller, const std::string& job,
                       const std::string& node)
    : log_(site, caller) {
    if (!log_.wanted()) return;
    event_.uid = caller.uid;
    event_.user = caller.user;
    event_.job = job;
    event_.node = node.empty() ? host_name() : node;
}

void StartEvent::in_container(const std::string& name, bool joined, const std::vector<plan::PhaseTime>& phases) {
    event_.container = name;
    if (joined) event_.from = plan::ImageFrom::container;
    joined ? lap("join") : laps(phases, "helper");
}

void StartEvent::opened(const std::string& digest) {
    event_.digest = digest;
    if (digest.empty()) event_.from = plan::ImageFrom::file;
}

void StartEvent::admitted(const std::string& signer, const std::string& rule) {
    event_.signer = signer;
    event_.rule = rule;
}

void StartEvent::pulled(const PullResult& result) {
    event_.from = plan::ImageFrom::pull;
    event_.bytes += result.bytes;
    event_.peer_bytes += result.peer_bytes;
    event_.published_bytes += result.published_bytes;
    event_.refused = result.refused;
    plan::Event pull = event_;
    pull.kind = plan::Event::Kind::pull;
    pull.digest = text_of(result.digest);
    pull.bytes = result.bytes;
    pull.peer_bytes = result.peer_bytes;
    pull.published_bytes = result.published_bytes;
    pull.phases = result.phases;
    for (const plan::PhaseTime& phase : result.phases) pull.total += phase.microseconds;
    pull.time = event_time();
    log_.write(pull);
}

void StartEvent::lap(const char* phase) { laps({}, phase); }

void StartEvent::laps(const std::vector<plan::PhaseTime>& phases, const char* rest) {
    auto now = Clock::now();
    uint64_t left = microseconds(now - std::exchange(last_, now));
    for (const plan::PhaseTime& phase : phases) left -= std::min(left, phase.microseconds);
    if (rest != nullptr) {
        debug::log("start", rest, " took ", left, " us");
        add({rest, left});
    }
    for (const plan::PhaseTime& phase : phases) add(phase);
}

void StartEvent::add(const plan::PhaseTime& phase) {
    if (show_) show_(phase);
    if (over_) return;
    auto before = std::find_if(event_.phases.begin(), event_.phases.end(),
                               [&](const plan::PhaseTime& other) { return other.name == phase.name; });
    if (before != event_.phases.end())
        before->microseconds += phase.microseconds;
    else
        event_.phases.push_back(phase);
}

void StartEvent::started() {
    if (!over_) finish(plan::Event::Kind::start);
}

void StartEvent::failed(const Error& error) { failed(cause_of(error, stage_), error.what()); }

void StartEvent::failed(plan::Cause cause, const std::string& line) {
    if (over_) return;
    event_.cause = cause;
    event_.error = line;
    finish(plan::Event::Kind::failure);
}

void StartEvent::finish(plan::Event::Kind kind) {
    over_ = true;
    event_.kind = kind;
    event_.time = event_time();
    // Until the last phase's end: what came after it is the tasks' own.
    event_.total = microseconds(last_ - begin_);
    if (log_.wanted()) log_.write(event_);
}

}  // namespace berth
