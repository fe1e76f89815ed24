// Divides a layer's tar stream into what its squashfs file has and the remainder.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "runtime/oci/layer/tar.hh"
#include "runtime/oci/remainder/remainder.hh"
#include "runtime/squash/read/layer_files.hh"

namespace berth::oci {

/// Takes a tar stream in pieces of any size. Every byte of a file is compared with the squashfs file: where that has
/// another one, or none (a file that a later one of the same name replaced), the tar's goes into the remainder. So the
/// two together always are the stream.
class TarSplitter : private TarSink {
  public:
    /// `layer` and whoever `packed` leads to have to live as long as this object.
    TarSplitter(squash::LayerFiles& layer, Sink packed) : layer_(layer), writer_(std::move(packed)), parser_(*this) {}

    /// Throws Error for what is no tar archive that Berth reads.
    void feed(std::string_view tar) { parser_.feed(tar); }
    /// To be called once, at the end.
    void finish();

    /// Bytes of files that went into the remainder.
    uint64_t kept_bytes() const { return kept_bytes_; }

  private:
    void entry(const TarEntry& entry) override;
    void data(std::string_view bytes) override;
    void zeros(uint64_t size) override { position_ += size; }
    void end_entry() override { file_.reset(); }
    void raw(std::string_view bytes) override { writer_.add_bytes(bytes); }
    size_t same_bytes(std::string_view bytes);

    squash::LayerFiles& layer_;
    RemainderWriter writer_;
    TarParser parser_;
    std::optional<squash::LayerFiles::File> file_;  ///< of the entry, as long as it has been the same
    std::string path_;
    uint64_t position_ = 0;
    uint64_t kept_bytes_ = 0;
    std::string buffer_;
};

}  // namespace berth::oci
