// The event of one start: its times as they pass, and in the end what became of it.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/images/open.hh"
#include "runtime/telemetry/event.hh"
#include "runtime/telemetry/event_log.hh"

namespace berth {

class StartEvent {
  public:
    /// To be made before the process leaves the node's root. `job` is "JOB.STEP" or empty; without `node` it is the
    /// host's name.
    StartEvent(const plan::Site& site, const plan::Caller& caller, const std::string& job,
               const std::string& node = {});

    void of_image(const std::string& text) { event_.image = text; }
    /// Of a container that stays: it was joined, or its helper has started it in `phases`.
    void in_container(const std::string& name, bool joined, const std::vector<plan::PhaseTime>& phases);
    /// The image starts before it is here (store.start): its pull is an event of its own, later.
    void early() { event_.from = plan::ImageFrom::pull; }
    void opened(const std::string& digest);
    /// By whose signature the image may run, and by which rule; empty where no policy is.
    void admitted(const std::string& signer, const std::string& rule);
    /// What was found wrong with unpacked files; empty: nothing.
    void noted(const std::string& note) { event_.note = note; }
    /// For PullWatch::fetched: what was pulled is an event of its own.
    void pulled(const PullResult& result);

    /// An error from here on belongs to this part, unless it says better.
    void stage(plan::Cause cause) { stage_ = cause; }
    /// Ends a phase that began at the last one's end. One that comes again takes longer.
    void lap(const char* phase);
    /// Phases that somebody else has timed; what has passed besides them since the last one's end is the phase `rest`,
    /// if it has a name.
    void laps(const std::vector<plan::PhaseTime>& phases, const char* rest = nullptr);
    /// Each phase from here on is given to `show` as well, also one that ends after the start.
    void show(std::function<void(const plan::PhaseTime&)> show) { show_ = std::move(show); }

    /// The first of these writes the event; later ones do nothing.
    void started();
    void failed(const Error& error);
    void failed(plan::Cause cause, const std::string& line);

  private:
    using Clock = std::chrono::steady_clock;
    void add(const plan::PhaseTime& phase);
    void finish(plan::Event::Kind kind);

    EventLog log_;
    plan::Event event_;
    plan::Cause stage_ = plan::Cause::request;
    std::function<void(const plan::PhaseTime&)> show_;
    Clock::time_point begin_ = Clock::now(), last_ = begin_;
    bool over_ = false;
};

}  // namespace berth
