// Unpacks layer blobs as a stream: gzip, zstd, or nothing at all, told by their first bytes.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace berth::oci {

/// Bytes that a sink gets at once, at most, of what was packed.
inline constexpr size_t decompressor_output_size = 256 * 1024;

using ByteSink = std::function<void(const void* data, size_t size)>;

/// Takes packed bytes, gives unpacked ones to its sink. Output comes in pieces, however much the input expands to.
class Decompressor {
  public:
    virtual ~Decompressor() = default;
    /// Throws Error for bytes that are no valid stream, those after its end included; what the sink throws passes
    /// through.
    virtual void feed(const void* data, size_t size) = 0;
    /// To be called after the last byte. Throws Error when the stream is cut off.
    virtual void finish() = 0;
};

/// zstd with any number of frames, skippable ones included; windows up to 128 MiB.
std::unique_ptr<Decompressor> make_zstd_decompressor(ByteSink sink);
/// True when a file with these first bytes (four are enough) is gzip or zstd.
bool is_gzip(std::string_view start);
bool is_zstd(std::string_view start);
/// Chooses by the first bytes: gzip, zstd, or else the bytes as they are. Media types are not asked, since registries
/// are known to lie about them.
std::unique_ptr<Decompressor> make_decompressor(ByteSink sink);

}  // namespace berth::oci
