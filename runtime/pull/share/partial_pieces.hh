// Pieces of an image that are on their way to this node: what has come of each, so that other nodes can have it before
// the piece is whole.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace berth::pull::share {

/// In memory, since nothing of it is checked. Safe to use from all threads.
class PartialPieces {
  public:
    static constexpr size_t limit = 32;  ///< pieces, a MiB each; of more nothing is kept

    /// Bytes of the piece from `offset` on, as they come. From two senders they go on where they are farther.
    void add(uint32_t piece, uint32_t offset, std::string_view bytes);
    /// All of the piece is in its file now.
    void set_whole(uint32_t piece);
    /// The piece has come, and is wrong: what was passed on of it is to be thrown away.
    void set_wrong(uint32_t piece);

    struct Piece {
        uint32_t piece = 0;
        uint32_t size = 0;  ///< bytes that have come
    };
    /// In the order of their numbers.
    std::vector<Piece> all() const;
    /// How often the piece was wrong. Bytes of different beginnings do not belong together.
    uint32_t beginning(uint32_t piece) const;
    /// Of that beginning, from `offset` on, at most `size` bytes.
    std::string bytes(uint32_t piece, uint32_t beginning, uint32_t offset, uint32_t size) const;

  private:
    uint32_t beginning_of(uint32_t piece) const;

    mutable std::mutex mutex_;
    std::map<uint32_t, std::string> coming_;
    std::map<uint32_t, uint32_t> wrong_;
};

}  // namespace berth::pull::share
