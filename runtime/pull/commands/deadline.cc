#include "runtime/pull/commands/deadline.hh"

#include <unistd.h>

#include <chrono>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::pull {

Deadline::Deadline(const plan::Site& site, Output& output) : output_(output) {
    if (site.limits.pull_time == 0) return;
    auto origin = site.origins.find("limits.pull_time");
    std::string rule = cat(origin == site.origins.end() ? "" : origin->second.text() + ": ", "limits.pull_time");
    thread_ = std::thread([this, seconds = site.limits.pull_time, rule] { watch(seconds, rule); });
}

Deadline::~Deadline() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

/// A thread cannot be made to leave a library or the kernel, so that the process goes as a whole.
void Deadline::watch(unsigned seconds, const std::string& rule) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return over_; })) return;
    output_.failed(
        Error(cat("image ", output_.meter().image(), ": not pulled after ", seconds, " seconds, the limit of ", rule)));
    ::_exit(exit_failure);
}

}  // namespace berth::pull
