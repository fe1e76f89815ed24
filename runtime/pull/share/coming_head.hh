// What stands before a piece of an image that has started, on its way from node to node.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace berth::pull::share {

/// 8 bytes, numbers little-endian. Nothing says what the bytes behind it have to be: whoever receives them has that
/// from the image's publisher.
struct ComingHead {
    /// In place of a number, without bytes: nothing yet; that was all; a piece that was asked for cannot be had.
    static constexpr uint32_t waiting = 0xffffffff, complete = 0xfffffffe, failed = 0xfffffffd;
    static constexpr size_t wire_size = 8;

    uint32_t piece = 0;
    uint32_t size = 0;  ///< bytes that follow
};
std::array<char, ComingHead::wire_size> encode(const ComingHead& head);
/// `bytes` are ComingHead::wire_size. Nothing for what cannot be one.
std::optional<ComingHead> parse_coming_head(std::string_view bytes);

}  // namespace berth::pull::share
