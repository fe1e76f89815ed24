#include "runtime/pull/transfer/pull_event.hh"

#include "runtime/base/environment.hh"
#include "runtime/host/facts.hh"
#include "runtime/oci/registry/error.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/telemetry/event_cause.hh"

namespace berth::pull {

plan::Cause cause_of_pull(const Error& problem) {
    if (dynamic_cast<const oci::Unreachable*>(&problem) != nullptr) return plan::Cause::network;
    const auto* refused = dynamic_cast<const oci::Refused*>(&problem);
    if (refused == nullptr) return cause_of(problem, plan::Cause::image);
    return refused->status() == 404                               ? plan::Cause::not_found
           : refused->status() == 401 || refused->status() == 403 ? plan::Cause::denied
                                                                  : plan::Cause::network;
}

PullEvent::PullEvent(const plan::Site& site, plan::Event::Kind of, const std::string& image, const Meter& meter)
    : meter_(meter) {
    if (site.events.log.empty() && site.events.counters.empty()) return;
    plan::Caller caller = caller_of_this_process();
    log_ = EventLog(site, caller);
    event_.uid = caller.uid;
    event_.user = caller.user;
    event_.node = host_name();
    event_.job = job_name(environment_of_this_process());
    event_.image = image;
    event_.of = of;
}

void PullEvent::pulled(const std::string& digest) {
    event_.digest = digest;
    if (meter_.has_merged()) write(plan::Event::Kind::pull);
}

void PullEvent::imported(const std::string& digest, const std::string& file) {
    event_.digest = digest;
    event_.file = file;
    write(plan::Event::Kind::import);
}

void PullEvent::failed(const Error& problem) {
    event_.cause = cause_of_pull(problem);
    event_.error = problem.what();
    write(plan::Event::Kind::failure);
}

void PullEvent::write(plan::Event::Kind kind) {
    event_.kind = kind;
    event_.time = event_time();
    event_.signer = meter_.signer();
    event_.rule = meter_.rule();
    event_.bytes = meter_.fetched();
    event_.peer_bytes = meter_.from_peers();
    event_.published_bytes = meter_.published();
    event_.waited_bytes = meter_.waited();
    event_.refused = meter_.refused();
    event_.phases = meter_.phase_times();
    event_.total = 0;
    for (const plan::PhaseTime& phase : event_.phases) event_.total += phase.microseconds;
    log_.write(event_);
}

}  // namespace berth::pull
