#include "runtime/pull/nodes/chunks/chunk_stream.hh"

#include <algorithm>

namespace berth::pull::nodes {

std::optional<size_t> ChunkStream::fill(char* out, size_t size) {
    size_t before = 0;
    // Head and bytes go together: a head of its own would be a packet of its own.
    if (done_ == head_.size) {
        if (is_over_) return std::nullopt;
        if (size < ChunkHead::wire_size) return 0;
        head_ = next();
        done_ = 0;
        is_over_ = head_.index == ChunkHead::complete || head_.index == ChunkHead::gone;
        std::ranges::copy(encode(head_), out);
        before = ChunkHead::wire_size;
        if (head_.size == 0 || size == before) return before;
    }
    size_t part = read(head_, done_, out + before, std::min<size_t>(size - before, head_.size - done_));
    done_ += static_cast<uint32_t>(part);
    sent_ += part;
    return before + part;
}

}  // namespace berth::pull::nodes
