// Ends a pull that takes too long.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/config/site.hh"
#include "runtime/pull/commands/output.hh"

namespace berth::pull {

/// While it lives, this process ends with an error when the site's limits.pull_time is over. What is not published then
/// has no name, as after a kill.
class Deadline {
  public:
    /// `output` must outlive it. No limit: nothing is started.
    Deadline(const plan::Site& site, Output& output);
    ~Deadline();
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

  private:
    void watch(unsigned seconds, const std::string& rule);

    Output& output_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    std::thread thread_;
};

}  // namespace berth::pull
