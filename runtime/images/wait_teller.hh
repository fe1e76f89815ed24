// Tells a person of reads that wait for bytes of an image that have still to come.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/chunk_map.hh"

namespace berth {

/// Decides when there is something to tell: of a read that has waited for so long, then of one that has waited twice as
/// long, and so on; with at most 10 lines. Pure.
class WaitLines {
  public:
    /// `patience`: how long nothing may come until reads fail. `first`: after which the first line is due.
    explicit WaitLines(std::chrono::seconds patience, std::chrono::seconds first = std::chrono::seconds(5))
        : patience_(patience), next_(first) {}

    /// The line that is due, if any. `waited`: the longest wait that goes on; `here` of `count` chunks have come.
    std::optional<std::string> due(std::chrono::milliseconds waited, uint32_t here, uint32_t count);

  private:
    std::chrono::seconds patience_;
    std::chrono::seconds next_;
    int left_ = 10;
};

/// How long the chunks of an image have been waited for, by whatever process, as far as this object has seen.
class OldestWait {
  public:
    using Clock = std::chrono::steady_clock;
    /// Of the chunk that is waited for longest; 0 when nothing is waited for. To be called again and again.
    std::chrono::milliseconds of(const ChunkMap& map, Clock::time_point now = Clock::now());

  private:
    std::map<uint32_t, Clock::time_point> since_;
};

/// A thread that looks once a second, until all chunks are here.
class WaitTeller {
  public:
    using Say = std::function<void(const std::string&)>;
    /// `say` is called in the thread. Where there can be no thread, nothing is told.
    WaitTeller(std::shared_ptr<ChunkMap> map, std::chrono::seconds patience, Say say);

  private:
    void run(std::stop_token stop);

    std::shared_ptr<ChunkMap> map_;
    WaitLines lines_;
    Say say_;
    std::mutex mutex_;
    std::condition_variable_any stopped_;
    std::jthread thread_;
};

}  // namespace berth
