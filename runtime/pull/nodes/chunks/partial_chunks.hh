// Chunks of an image that are on their way to this node: what has come of each, so that other nodes can have it before
// the chunk is whole.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace berth::pull::nodes {

/// In memory, since nothing of it is checked. Safe to use from all threads.
class PartialChunks {
  public:
    static constexpr size_t limit = 32;           ///< chunks, a MiB each; of more nothing is kept
    static constexpr uint32_t unit = 4 << 10;     ///< bytes: what goes on; smaller parts would not be worth the work

    /// Bytes of the chunk from `offset` on, as they come. From two senders they go on where they are farther.
    void add(uint32_t chunk, uint32_t offset, std::string_view bytes);
    /// All of the chunk is in its file now.
    void set_whole(uint32_t chunk);
    /// The chunk has come, and is wrong: what was passed on of it is to be thrown away.
    void set_wrong(uint32_t chunk);

    struct Chunk {
        uint32_t chunk = 0;
        uint32_t size = 0;  ///< bytes that have come
    };
    /// In the order of their numbers.
    std::vector<Chunk> all() const;
    /// How often the chunk was wrong. Bytes of different beginnings do not belong together.
    uint32_t beginning(uint32_t chunk) const;
    /// Of that beginning, from `offset` on, at most `size` bytes.
    std::string bytes(uint32_t chunk, uint32_t beginning, uint32_t offset, uint32_t size) const;

    /// A number that is another one when there is another unit of a chunk, or all of it.
    uint32_t news() const;
    /// Until the number is no longer `seen`, or `limit` is over.
    void wait_for_news(uint32_t seen, std::chrono::milliseconds limit) const;

  private:
    uint32_t beginning_of(uint32_t chunk) const;
    void set_news();

    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    uint32_t news_ = 0;
    std::map<uint32_t, std::string> coming_;
    std::map<uint32_t, uint32_t> wrong_;
};

}  // namespace berth::pull::nodes
