// What stands before bytes of a chunk on their way from node to node, whatever the chunk is of.
//
// What a chunk is checked by:
//
//     of a layer that is wanted whole   by `sum`, which the layer's owner has made and all others pass on unchanged, as
//                                       soon as the chunk is here; when the layer is, by the owner's sum over all sums
//     of an image that runs already     by the publisher's signed sums, which the receiver has before; `sum` is zeros
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace berth::pull::nodes {

/// A sender that has nothing says so after this time. One that says nothing for the other has gone.
inline constexpr auto word_time = std::chrono::milliseconds(250);
inline constexpr auto longest_silence = std::chrono::seconds(5);

/// The even chunks of a layer go through the first tree, the odd ones through the second.
inline constexpr unsigned stripe_count = 2;

/// SHA-256.
using ChunkSum = std::array<uint8_t, 32>;
ChunkSum sum_of_chunk(std::string_view bytes);

/// 48 bytes, numbers little-endian. A chunk may come in parts, each where the one before it ended; with one that begins
/// at 0 it begins anew.
struct ChunkHead {
    /// In place of an index, without bytes: nothing yet; that was all; what was asked for will not come from here.
    static constexpr uint32_t waiting = 0xffffffff, complete = 0xfffffffe, gone = 0xfffffffd;
    static constexpr size_t wire_size = 48;

    uint32_t index = 0;
    uint32_t size = 0;    ///< bytes that follow
    uint32_t offset = 0;  ///< of the first of them in the chunk
    uint32_t ahead = 0;   ///< so many chunks behind this one the sender has already
    ChunkSum sum = {};
};
std::array<char, ChunkHead::wire_size> encode(const ChunkHead& head);
/// `bytes` are ChunkHead::wire_size. Nothing for what cannot be one.
std::optional<ChunkHead> parse_chunk_head(std::string_view bytes);

}  // namespace berth::pull::nodes
