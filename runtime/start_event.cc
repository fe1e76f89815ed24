#include "runtime/start_event.hh"

#include "runtime/event_cause.hh"

namespace berth {

StartEvent::StartEvent(const plan::Site& site, const plan::Caller& caller, const std::string& job, const std::string& node) : log_(site, caller) {
    if (!log_.wanted()) return;
    event_.uid = caller.uid;
    event_.user = caller.user;
    event_.job = job;
    event_.node = node.empty() ? host_name() : node;
}

void StartEvent::in_container(const std::string& name, bool joined) {
    event_.container = name;
    if (joined) event_.from = plan::ImageFrom::container;
}

void StartEvent::opened(const std::string& digest) {
    event_.digest = digest;
    if (digest.empty()) event_.from = plan::ImageFrom::file;
}

void StartEvent::pulled(const PullResult& result) {
    event_.from = plan::ImageFrom::pull;
    event_.bytes += result.bytes;
    plan::Event pull = event_;
    pull.kind = plan::Event::Kind::pull;
    pull.digest = result.digest;
    pull.bytes = result.bytes;
    pull.phases = result.phases;
    for (const plan::PhaseTime& phase : result.phases) pull.total += phase.microseconds;
    pull.time = event_time();
    log_.write(pull);
}

std::chrono::microseconds StartEvent::lap(const char* phase) {
    auto now = Clock::now();
    auto time = std::chrono::duration_cast<std::chrono::microseconds>(now - last_);
    last_ = now;
    if (!over_) event_.phases.push_back({phase, static_cast<uint64_t>(time.count())});
    return time;
}

void StartEvent::laps(const std::vector<Phase>& phases) {
    for (const Phase& phase : phases) event_.phases.push_back({phase.name, static_cast<uint64_t>(phase.time.count())});
    last_ = Clock::now();
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
    event_.total = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(last_ - begin_).count());
    if (log_.wanted()) log_.write(event_);
}

}  // namespace berth
