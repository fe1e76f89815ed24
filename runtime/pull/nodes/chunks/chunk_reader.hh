// What another node sends in answer to one request, put together to chunks.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/error.hh"
#include "runtime/pull/nodes/protocol/chunk_head.hh"

namespace berth::pull::nodes {

/// Whoever takes chunks throws it about one that is not as it has to be. One line, without the sender's name.
class WrongChunk : public Error {
  public:
    using Error::Error;
};

/// For one answer. Whatever the bytes, a chunk that is handed on has the size that it is to have; whether it is right
/// is for whoever gets it to say.
class ChunkReader {
  public:
    using Clock = std::chrono::steady_clock;

    struct Taker {
        /// Bytes of the chunk of which this is the head, or a part's; nothing for one that is not to come.
        std::function<std::optional<uint32_t>(const ChunkHead& head)> size_of;
        std::function<void(const ChunkHead& head, std::string_view bytes)> whole;
        /// Told of all that comes, before it is whole.
        std::function<void(uint32_t chunk, uint32_t offset, std::string_view bytes)> part = {};
        std::function<void(const ChunkHead& head)> head = {};  ///< told of each that is no end
    };
    explicit ChunkReader(Taker taker) : taker_(std::move(taker)) {}

    /// False to leave the sender. Throws what the taker throws.
    bool take(std::string_view data);
    /// The sender has sent all.
    bool is_complete() const { return is_complete_; }
    /// It has said that it will not have what was asked for.
    bool is_gone() const { return is_gone_; }
    /// Why it is to be left; one line, without its name.
    const std::string& problem() const { return problem_; }
    Clock::time_point heard() const { return heard_; }
    Clock::time_point fed() const { return fed_; }  ///< when bytes of a chunk came last
    bool has_fed() const { return has_fed_; }
    uint32_t chunks() const { return chunks_; }  ///< that were whole

    /// Chunks of which one sender may have sent a part: 64 MiB.
    static constexpr size_t unfinished_limit = 64;

  private:
    bool take_head(std::string_view& data);
    bool is_next(const ChunkHead& head);
    void take_bytes(std::string_view& data);

    Taker taker_;
    std::string head_bytes_, problem_;
    std::map<uint32_t, std::string> unfinished_;
    std::optional<ChunkHead> head_;  ///< of the bytes that come
    uint32_t size_ = 0;              ///< of its chunk
    bool is_complete_ = false, is_gone_ = false, has_fed_ = false;
    uint32_t chunks_ = 0;
    Clock::time_point heard_ = Clock::now(), fed_ = heard_;
};

}  // namespace berth::pull::nodes
