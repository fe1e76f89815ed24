// Holds a layer file that came ready-made to the entries that it should have been made of.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/digest.hh"
#include "runtime/base/error.hh"
#include "runtime/squash/read/layer_files.hh"
#include "runtime/squash/write/layer_sink.hh"

namespace berth::squash {

/// A layer file is not what it should have been made of, or that cannot be made again.
class LayerDiffers : public Error {
  public:
    using Error::Error;
};

/// Hashes bytes of a file. SHA-256 comes from outside, since `berth`, which has this folder, has no library for it.
class ContentHash {
  public:
    virtual ~ContentHash() = default;
    virtual void update(std::string_view bytes) = 0;
    virtual Digest finish() = 0;
};
using MakeContentHash = std::function<std::unique_ptr<ContentHash>()>;

/// Takes the entries as LayerWriter does. In the end the layer file has to show the same tree as the file that a
/// LayerWriter makes of them: names, kinds, attributes, targets, which names are one file, and every byte.
class LayerCheck : public LayerSink {
  public:
    /// `layer` has to live as long as this object. `origin` tells where the bytes of the present append() come from:
    /// those of the file's own place in `layer` are not read again. `make_hash` is for the few files that the layer
    /// does not have under the name of their entry.
    LayerCheck(LayerFiles& layer, std::function<const Origin&()> origin, MakeContentHash make_hash);
    ~LayerCheck() override;

    std::string resolved(std::string_view path) const override;
    void add_directory(std::string_view path, const Attributes& attributes) override;
    void add_symlink(std::string_view path, const Attributes& attributes, std::string_view target) override;
    void add_special(std::string_view path, const Attributes& attributes, uint32_t type) override;
    void add_hardlink(std::string_view path, std::string_view existing) override;
    void begin_file(std::string_view path, const Attributes& attributes, uint64_t size = 0) override;
    void append(std::string_view data) override;
    void append_zeros(uint64_t size) override;
    void end_file() override;
    void remove(std::string_view path) override;
    void mark_implied_directories(std::string_view marker) override;
    uint64_t memory() const override;

    /// To be called once, after the last entry. Throws LayerDiffers that names the first difference.
    void finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::squash
