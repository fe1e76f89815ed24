// What a node serves to others: layers that come into being, images that run before they are here.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/pull/nodes/protocol/chunk_head.hh"

namespace berth::pull::nodes {

/// The answer to one request, as it is sent: chunks behind their heads, in the order that its maker chooses. For one
/// thread at a time.
class ChunkStream {
  public:
    virtual ~ChunkStream() = default;

    /// Writes what comes next, at most `size` bytes, and returns how many: 0 where there is no room for a head, nothing
    /// at the end. Throws SysError.
    std::optional<size_t> fill(char* out, size_t size);
    /// Bytes of chunks so far, without heads.
    uint64_t sent() const { return sent_; }

  protected:
    /// The head of what comes next; `waiting` after word_time, so that silence means a node that is gone.
    virtual ChunkHead next() = 0;
    /// Copies bytes that belong to the head which next() has returned last, from `done` on. Throws SysError.
    virtual size_t read(const ChunkHead& head, uint32_t done, char* out, size_t size) = 0;

  private:
    ChunkHead head_;
    uint32_t done_ = 0;  ///< bytes behind that head
    bool is_over_ = false;
    uint64_t sent_ = 0;
};

/// Of a request: which chunks of an image the asking node has, see word_of().
inline constexpr const char* here_header = "Berth-Here";

/// Something that a node has for the others, whole or not.
class Offer {
  public:
    virtual ~Offer() = default;
    /// The first word of a request's path: a digest in hex.
    virtual std::string name() const = 0;
    /// What a GET of `path`, which begins with the name, answers; nothing when there is no such thing. `here` is what
    /// the asking node has, by its own word. The answer does not outlive this object.
    virtual std::unique_ptr<ChunkStream> answer(std::string_view path, std::string_view here) const = 0;
};

}  // namespace berth::pull::nodes
