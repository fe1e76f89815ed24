// The pieces of an image that has started before it is here, for the other nodes of the step: what is on its way among
// them, and a node's side that sends.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/pull/share/coming_head.hh"
#include "runtime/pull/share/partial_pieces.hh"
#include "runtime/pull/share/piece_owners.hh"
#include "runtime/store/partial.hh"

namespace berth::pull::share {

/// A word for a set of pieces, for ComingImage::here_header; empty when it would be too long for a header.
std::string word_of(const Arrivals& arrivals);

/// Safe to use from all threads.
class ComingImage {
  public:
    /// Of a request for all pieces: those that the asking node has, see word_of().
    static constexpr const char* here_header = "Berth-Here";

    ComingImage(std::shared_ptr<const store::Partial> partial, const Digest& manifest);

    /// Who asks whom, and this node's place. Until then nobody is sent what was not asked for by number. When it
    /// changes, answers that are being sent have the pieces that the node takes from this one by now, too.
    void set_owners(std::shared_ptr<const PieceOwners> owners, std::optional<unsigned> own);

    /// One answer, as it is sent. For one thread at a time.
    class Answer {
      public:
        /// Writes what comes next, at most `size` bytes (at least ComingHead::wire_size). Returns how many; 0 at the
        /// end. Says every quarter of a second that there is nothing, so that silence means a node that is gone. Throws
        /// SysError.
        size_t fill(char* out, size_t size);

      private:
        friend ComingImage;
        /// A piece to send.
        struct Left {
            uint32_t piece = 0;
            bool is_in_profile = false;
            uint32_t sent = 0;       ///< bytes of it
            uint32_t beginning = 0;  ///< see PartialPieces
        };
        Answer(const ComingImage& image, std::vector<Left> asked, std::string here, std::optional<unsigned> node,
               bool is_all);
        ComingHead next();
        ComingHead next_asked();
        ComingHead next_of_all();
        std::optional<ComingHead> next_whole(bool of_profile);
        std::optional<ComingHead> next_part(bool of_profile);
        bool find_all();

        const ComingImage* image_;
        bool is_all_;
        std::optional<unsigned> node_;  ///< who asks for all
        std::string here_;              ///< what it had then, and has been sent
        std::shared_ptr<const PieceOwners> known_;  ///< by which `left_` has all
        size_t parts_limit_ = 1;        ///< pieces of which a part has been sent, at most
        std::vector<Left> left_;        ///< to send, in the order of their numbers
        size_t next_asked_ = 0;
        ComingHead head_;
        std::string part_;              ///< the bytes behind it; empty: they are in the file
        uint32_t sent_ = 0;             ///< bytes of the part
        bool in_part_ = false, is_over_ = false;
    };

    /// What a GET of `path` (see ComingPath) answers; nothing when there is no such thing. The answer does not outlive
    /// this object. Pieces that are named come in their order, for somebody who waits for them. All come as they are
    /// here, what starts read before the rest; of what is on its way to this one, the part that has come.
    std::optional<Answer> answer(std::string_view path, std::string_view here) const;

    std::string path(Arrivals::Pieces pieces) const;
    std::string path_of_all(std::optional<unsigned> node) const;
    /// Bytes of a piece.
    uint32_t size(uint32_t piece) const;
    /// What has come of those that are not here.
    PartialPieces& coming() { return coming_; }
    /// Some node takes the piece from this one.
    bool is_passed_on(uint32_t piece) const;

  private:
    struct Place {
        const store::PartialLayer* layer;
        uint64_t at;
    };
    Place place(uint32_t piece) const;
    size_t read(uint32_t piece, uint32_t offset, char* out, size_t size) const;

    std::shared_ptr<const store::Partial> partial_;
    std::string name_;
    std::vector<uint32_t> ends_;
    PartialPieces coming_;
    mutable std::mutex mutex_;
    std::shared_ptr<const PieceOwners> owners_;
    std::optional<unsigned> own_;
};

}  // namespace berth::pull::share
