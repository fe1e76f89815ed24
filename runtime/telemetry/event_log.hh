// Where a site wants its events: opened before a start leaves the node's root, written when it is over.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/config/site.hh"
#include "runtime/request/request.hh"
#include "runtime/telemetry/event.hh"

namespace berth {

/// Of one process. A log that cannot be opened or written loses the event, never the start; `berth doctor` reports it.
class EventLog {
  public:
    EventLog() = default;
    /// Opens what events.log and events.counters name; nothing when they are empty.
    EventLog(const plan::Site& site, const plan::Caller& caller);

    /// True when somebody listens.
    bool wanted() const { return log_ || counters_; }
    /// One write to the log, and one number more in the counters.
    void write(const plan::Event& event);

  private:
    void send(const plan::Event& event) const;

    Fd log_, counters_;
    bool syslog_ = false;
};

/// What keeps this user's events from being written, as lines; empty when nothing does. It opens what a start would
/// open.
std::vector<std::string> event_troubles(const plan::Site& site, const plan::Caller& caller);

/// Now, as Event::time counts.
int64_t event_time();

}  // namespace berth
