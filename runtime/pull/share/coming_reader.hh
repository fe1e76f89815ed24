// What a node of the step sends of an image that has started, put together to pieces.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/pull/share/coming_head.hh"

namespace berth::pull::share {

/// For one answer. Whatever the bytes, a piece that is handed on has the size that it is to have; whether it is right
/// is for whoever gets it to say.
class ComingReader {
  public:
    using Clock = std::chrono::steady_clock;

    /// Of the image.
    struct Sizes {
        uint32_t pieces = 0;
        std::function<uint32_t(uint32_t piece)> of;  ///< bytes
    };
    using Whole = std::function<void(uint32_t piece, std::string_view bytes)>;
    /// Is told of all that comes, before it is whole.
    using Part = std::function<void(uint32_t piece, uint32_t offset, std::string_view bytes)>;
    ComingReader(Sizes sizes, Whole whole, Part part);

    /// False to leave the neighbour; throws what `whole` and `part` throw.
    bool take(std::string_view data);
    /// The neighbour has sent all.
    bool is_complete() const { return is_complete_; }
    /// Why it is to be left; one line, without its name.
    const std::string& problem() const { return problem_; }
    Clock::time_point heard() const { return heard_; }
    Clock::time_point fed() const { return fed_; }  ///< when bytes of a piece came last
    bool has_fed() const { return has_fed_; }
    uint32_t pieces() const { return pieces_; }     ///< that were whole

    /// Pieces of which one neighbour may have sent a part: 64 MiB.
    static constexpr size_t unfinished_limit = 64;

  private:
    bool take_head(std::string_view& data);
    bool is_next(const ComingHead& head) const;
    void take_bytes(std::string_view& data);

    Sizes sizes_;
    Whole whole_;
    Part part_;
    std::string head_bytes_, problem_;
    std::map<uint32_t, std::string> unfinished_;
    std::optional<ComingHead> head_;  ///< of the bytes that come
    bool is_complete_ = false, has_fed_ = false;
    uint32_t pieces_ = 0;
    Clock::time_point heard_ = Clock::now(), fed_ = heard_;
};

}  // namespace berth::pull::share
