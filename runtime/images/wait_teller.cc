#include "runtime/images/wait_teller.hh"

#include <signal.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/base/text.hh"

namespace berth {

std::optional<std::string> WaitLines::due(std::chrono::milliseconds waited, uint32_t here, uint32_t count) {
    if (waited < next_ || left_ == 0) return std::nullopt;
    next_ *= 2;
    --left_;
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
    return cat("a read of the image has waited ", seconds, " s for bytes that have still to come; ", here, " of ",
               count, " MiB are here; it fails when nothing has come for ", patience_.count(),
               " s (limits.stall_time)");
}

std::chrono::milliseconds OldestWait::of(const ChunkMap& map, Clock::time_point now) {
    std::map<uint32_t, Clock::time_point> before = std::exchange(since_, {});
    auto oldest = now;
    for (uint32_t chunk : map.wanted()) {
        auto known = before.find(chunk);
        oldest = std::min(oldest, since_[chunk] = known == before.end() ? now : known->second);
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest);
}

WaitTeller::WaitTeller(std::shared_ptr<ChunkMap> map, std::chrono::seconds patience, Say say)
    : map_(std::move(map)), lines_(patience), say_(std::move(say)) {
    // Signals are the business of the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
    } catch (const std::system_error&) {
        // The start goes on without.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void WaitTeller::run(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    OldestWait oldest;
    while (!stopped_.wait_for(lock, stop, std::chrono::seconds(1), [&] { return stop.stop_requested(); })) {
        uint32_t here = map_->here();
        if (here == map_->count()) return;
        if (auto line = lines_.due(oldest.of(*map_), here, map_->count())) say_(*line);
    }
}

}  // namespace berth
