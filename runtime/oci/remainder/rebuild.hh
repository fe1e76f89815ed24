// Makes a layer's tar stream again, from its squashfs file and the remainder.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/oci/remainder/remainder.hh"
#include "runtime/oci/sink.hh"
#include "runtime/squash/read/layer_files.hh"

namespace berth::oci {

/// Takes the remainder in pieces of any size and gives the tar stream to its sink. Whether that is the layer's tells
/// its digest alone: both may come from anybody.
class TarRebuilder {
  public:
    /// `layer` has to live as long as this object. More than `limit` bytes of tar are refused.
    TarRebuilder(squash::LayerFiles& layer, Sink tar, uint64_t limit);

    /// Throws Error when the remainder is damaged, or names bytes that the layer does not have.
    void feed(std::string_view packed) { reader_.feed(packed); }
    /// To be called once, at the end. Throws Error when the remainder is cut off.
    void finish() { reader_.finish(); }

    /// Where the bytes come from that the sink is being given.
    const squash::Origin& origin() const { return origin_; }

  private:
    void give(const FilePart& part);

    squash::LayerFiles& layer_;
    Sink tar_;
    RemainderReader reader_;
    std::vector<char> buffer_;
    squash::Origin origin_;
};

}  // namespace berth::oci
