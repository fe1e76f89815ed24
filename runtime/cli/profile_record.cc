#include "runtime/cli/profile_record.hh"

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/store/profile.hh"

namespace berth::cli {

namespace {

constexpr size_t profile_limit = Arrivals::piece_limit * 4;

Digest manifest_of(const OpenedImage& opened, const store::Store& store, const std::string& name) {
    auto manifest = opened.digest ? store.image_of(*opened.digest) : std::nullopt;
    if (!manifest || opened.image.layers.empty() || !store.own().has_manifest(*manifest))
        throw Error(cat("profile of ", printable(name, 1024),
                        ": only images that are in your own store, from a registry, can have one"));
    return *manifest;
}

/// For each layer of the index, the number of its first piece; `count` receives how many there are.
std::vector<uint32_t> first_pieces(const ContainerImage& image, uint32_t& count) {
    std::vector<uint32_t> out;
    const std::vector<squash::LayerInfo>& layers = image.index.layers();
    for (size_t i = 0; i < layers.size(); ++i) {
        size_t same = 0;
        while (layers[same].name != layers[i].name) ++same;
        out.push_back(same < i ? out[same] : count);
        auto size = static_cast<uint64_t>(sys::stat_of(image.layers[i].get(), layers[i].name).st_size);
        if (same == i) count += static_cast<uint32_t>(Arrivals::pieces_of(size));
    }
    return out;
}

}  // namespace

ProfileRecord::ProfileRecord(OpenedImage& opened, store::Store store, const std::string& name)
    : store_(std::move(store)), manifest_(manifest_of(opened, store_, name)) {
    opened.image.coming.first = first_pieces(opened.image, count_);
    log_ = opened.image.coming.log = std::make_shared<squash::PieceLog>(count_);
}

void ProfileRecord::keep() const {
    auto known = store_.find_document(manifest_, store::profile_file, profile_limit);
    std::string all = cat(known.value_or(""), store::format_profile(log_->pieces()));
    std::vector<uint32_t> pieces = store::parse_profile(all, count_);
    store_.put_document(manifest_, store::profile_file, store::format_profile(pieces));
    show_note(cat("profile of ", manifest_, ": ", human_bytes(pieces.size() * Arrivals::piece_size), " of ",
                  human_bytes(uint64_t{count_} * Arrivals::piece_size), "; berth publish takes it along"));
}

}  // namespace berth::cli
