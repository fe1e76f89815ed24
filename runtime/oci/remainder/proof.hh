// Proves what a layer file that came ready-made is: that its tar stream has the diff_id, and that the file shows the
// same tree as one that would be made of this stream here.
//
// The diff_id alone says nothing of the file: a remainder could bring other bytes than the file has, or the file could
// have names of which no entry knows.
#pragma once
#include <functional>
#include <string_view>

#include "runtime/base/digest.hh"
#include "runtime/oci/layer/tar.hh"
#include "runtime/oci/layer/unpack.hh"
#include "runtime/oci/remainder/rebuild.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/squash/read/layer_files.hh"
#include "runtime/squash/write/layer_check.hh"

namespace berth::oci {

/// Of a layer file and a tar stream that is at hand. One thread at a time.
class StreamProof {
  public:
    /// `layer` has to live as long as this object. A stream past the limits is refused. `origin`: see LayerCheck; null
    /// where the stream was not made from the layer.
    StreamProof(squash::LayerFiles& layer, const LayerLimits& limits,
                std::function<const squash::Origin&()> origin = {});
    StreamProof(const StreamProof&) = delete;
    StreamProof& operator=(const StreamProof&) = delete;

    /// Takes the next bytes of the stream. Throws Error.
    void feed(std::string_view tar);
    /// To be called once, at the end. The diff_id of the stream; throws LayerDiffers when the file is not what would be
    /// made of it.
    Digest finish();

  private:
    Sha256 hash_;
    squash::LayerCheck check_;
    Unpacker unpacker_;
    TarParser parser_;
};

/// Of a layer file and the remainder of its tar stream. One thread at a time.
class LayerProof {
  public:
    /// `layer` has to live as long as this object. A stream past the limits is refused. `watch` is called for every MiB
    /// or so of the stream, and may throw to end it.
    LayerProof(squash::LayerFiles& layer, const LayerLimits& limits, std::function<void()> watch = {});
    LayerProof(const LayerProof&) = delete;
    LayerProof& operator=(const LayerProof&) = delete;

    /// Takes the next bytes of the remainder. Throws Error.
    void feed(std::string_view remainder) { rebuilder_.feed(remainder); }
    /// To be called once, at the end. The diff_id of what the file is; throws LayerDiffers when the file
    /// is not what would be made of that stream.
    Digest finish();

  private:
    void take(std::string_view tar);

    std::function<void()> watch_;
    TarRebuilder rebuilder_;
    StreamProof stream_;
};

}  // namespace berth::oci
