// What stands before bytes of a piece of an image that has started, on their way from node to node.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace berth::pull::share {

/// 12 bytes, numbers little-endian. A piece comes in parts, each where the one before it ended; with one that begins at
/// 0 it begins anew. The last part is sent of a piece that has been checked alone. Nothing says what the bytes have to
/// be: whoever receives them has that from the image's publisher.
struct ComingHead {
    /// In place of a number, without bytes: nothing yet; that was all; a piece that was asked for cannot be had.
    static constexpr uint32_t waiting = 0xffffffff, complete = 0xfffffffe, failed = 0xfffffffd;
    static constexpr size_t wire_size = 12;

    uint32_t piece = 0;
    uint32_t size = 0;    ///< bytes that follow
    uint32_t offset = 0;  ///< of the first of them in the piece
};
std::array<char, ComingHead::wire_size> encode(const ComingHead& head);
/// `bytes` are ComingHead::wire_size. Nothing for what cannot be one.
std::optional<ComingHead> parse_coming_head(std::string_view bytes);

}  // namespace berth::pull::share
