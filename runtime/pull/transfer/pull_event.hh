// What a site is told of a pull or an import that is no part of a start; that of a start is told by its runtime,
// together with it.
#pragma once
#include <string>

#include "runtime/base/error.hh"
#include "runtime/config/site.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/telemetry/event.hh"
#include "runtime/telemetry/event_log.hh"

namespace berth::pull {

/// Why a pull failed, as far as the error says.
plan::Cause cause_of_pull(const Error& problem);

class PullEvent {
  public:
    /// `of` is what the command is: a pull or an import of `image`, as it was asked for. The meter is the one that the
    /// work feeds.
    PullEvent(const plan::Site& site, plan::Event::Kind of, const std::string& image, const Meter& meter);

    /// "JOB.STEP", where the environment does not have it.
    void of_job(const std::string& job) {
        if (!job.empty()) event_.job = job;
    }
    /// Nothing is reported where the store had the image already.
    void pulled(const std::string& digest);
    /// `file` is the one that was written.
    void imported(const std::string& digest, const std::string& file);
    void failed(const Error& problem);

  private:
    void write(plan::Event::Kind kind);

    const Meter& meter_;
    EventLog log_;
    plan::Event event_;
};

}  // namespace berth::pull
