#include "runtime/oci/remainder/proof.hh"

#include "runtime/squash/index/tree.hh"

namespace berth::oci {

LayerProof::LayerProof(squash::LayerFiles& layer, const LayerLimits& limits, std::function<void()> watch)
    : watch_(std::move(watch)),
      rebuilder_(layer, [this](std::string_view tar) { take(tar); }, limits.unpacked_bytes),
      check_(layer, [this]() -> const squash::Origin& { return rebuilder_.origin(); }),
      unpacker_(check_, limits),
      parser_(unpacker_) {}

void LayerProof::take(std::string_view tar) {
    if (watch_) watch_();
    hash_.update(tar);
    parser_.feed(tar);
}

Digest LayerProof::finish() {
    rebuilder_.finish();
    parser_.finish();
    check_.mark_implied_directories(squash::implied_directory_marker);
    check_.finish();
    return hash_.finish();
}

}  // namespace berth::oci
