#include "runtime/oci/remainder/proof.hh"

#include "runtime/squash/index/tree.hh"

namespace berth::oci {

namespace {

const squash::Origin& from_elsewhere() {
    static const squash::Origin none;
    return none;
}

class ContentHash : public squash::ContentHash {
  public:
    void update(std::string_view bytes) override { hash_.update(bytes); }
    Digest finish() override { return hash_.finish(); }

  private:
    Sha256 hash_;
};

}  // namespace

StreamProof::StreamProof(squash::LayerFiles& layer, const LayerLimits& limits,
                         std::function<const squash::Origin&()> origin)
    : check_(layer, origin ? std::move(origin) : from_elsewhere, [] { return std::make_unique<ContentHash>(); }),
      unpacker_(check_, limits),
      parser_(unpacker_) {}

void StreamProof::feed(std::string_view tar) {
    hash_.update(tar);
    parser_.feed(tar);
}

Digest StreamProof::finish() {
    parser_.finish();
    unpacker_.finish();
    check_.mark_implied_directories(squash::implied_directory_marker);
    check_.finish();
    return hash_.finish();
}

LayerProof::LayerProof(squash::LayerFiles& layer, const LayerLimits& limits, std::function<void()> watch)
    : watch_(std::move(watch)),
      rebuilder_(layer, [this](std::string_view tar) { take(tar); }, limits.unpacked_bytes),
      stream_(layer, limits, [this]() -> const squash::Origin& { return rebuilder_.origin(); }) {}

void LayerProof::take(std::string_view tar) {
    if (watch_) watch_();
    stream_.feed(tar);
}

Digest LayerProof::finish() {
    rebuilder_.finish();
    return stream_.finish();
}

}  // namespace berth::oci
