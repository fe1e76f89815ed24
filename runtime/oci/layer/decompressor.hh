// What unpacks a stream of packed bytes.
#pragma once
#include <cstddef>
#include <cstdint>
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
    /// Whether what has been fed so far can be all: false inside of a member or frame, and where nothing has an end.
    virtual bool is_at_end() const { return false; }
};

/// Feeds a decompressor what zeros may follow, as many as there are: libarchive's bsdtar, which is macOS's tar, pads an
/// archive that it writes to a pipe with them after its compression.
class ZeroPadded {
  public:
    explicit ZeroPadded(Decompressor& inner) : inner_(inner) {}
    /// Zeros wait until it is known what they are.
    void feed(std::string_view data);
    void finish();

  private:
    void feed_zeros();

    Decompressor& inner_;
    uint64_t zeros_ = 0;
};

}  // namespace berth::oci
