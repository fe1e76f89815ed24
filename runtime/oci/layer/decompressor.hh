// What unpacks a stream of packed bytes.
#pragma once
#include <cstddef>
#include <string_view>

#include "runtime/oci/sink.hh"

namespace berth::oci {

/// Bytes that a sink gets at once, at most, of what was packed.
inline constexpr size_t decompressor_output_size = 256 * 1024;

/// Takes packed bytes, gives unpacked ones to its sink. Output comes in pieces, however much the input expands to.
class Decompressor {
  public:
    virtual ~Decompressor() = default;
    /// Throws Error for bytes that are no valid stream, those after its end included; what the sink throws passes
    /// through.
    virtual void feed(std::string_view data) = 0;
    /// To be called after the last byte. Throws Error when the stream is cut off.
    virtual void finish() = 0;
};

}  // namespace berth::oci
