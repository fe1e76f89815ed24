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

/// The file of events.log for this user on this node; empty where it is none.
std::string event_log_path(const plan::Site& site, const plan::Caller& caller);

/// The folder for this user's counters alone (%U), where nothing is there yet: the plugin makes it with the user's
/// first step on the node. Empty in any other case.
std::string counters_to_come(const plan::Site& site, const plan::Caller& caller);

/// What keeps this user's events from being written, as lines; empty when nothing does, also where it keeps those of
/// others. It opens what a start would open.
std::vector<std::string> event_troubles(const plan::Site& site, const plan::Caller& caller);

/// Now, as Event::time counts.
int64_t event_time();

}  // namespace berth
