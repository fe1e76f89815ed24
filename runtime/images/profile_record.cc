#include "runtime/images/profile_record.hh"

#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/profile.hh"

namespace berth {

namespace {

constexpr size_t profile_limit = ChunkMap::chunk_limit * 4;

/// Nothing where there can be no profile.
std::optional<Digest> manifest_of(const OpenedImage& opened, const store::Store& store) {
    auto manifest = opened.digest ? store.image_of(*opened.digest) : std::nullopt;
    bool is_possible = manifest && !opened.image.layers.empty() && !opened.image.coming.map &&
                       store.own().has_manifest(*manifest);
    return is_possible ? manifest : std::nullopt;
}

Digest wanted_manifest(const OpenedImage& opened, const store::Store& store, const std::string& name) {
    if (auto manifest = manifest_of(opened, store)) return *manifest;
    throw Error(cat("profile of ", printable(name, 1024),
                    ": only images that are in your own store, from a registry, can have one"));
}

/// For each layer of the index, the number of its first chunk; `count` receives how many there are.
std::vector<uint32_t> first_chunks(const ContainerImage& image, uint32_t& count) {
    std::vector<uint32_t> out;
    const std::vector<squash::LayerInfo>& layers = image.index.layers();
    for (size_t i = 0; i < layers.size(); ++i) {
        size_t same = 0;
        while (layers[same].name != layers[i].name) ++same;
        out.push_back(same < i ? out[same] : count);
        auto size = static_cast<uint64_t>(sys::stat_of(image.layers[i].get(), layers[i].name).st_size);
        if (same == i) count += static_cast<uint32_t>(ChunkMap::chunks_of(size));
    }
    return out;
}

}  // namespace

bool ProfileRecord::is_possible(const OpenedImage& opened, const store::Store& store) {
    return manifest_of(opened, store).has_value();
}

ProfileRecord::ProfileRecord(OpenedImage& opened, store::Store store, const std::string& name,
                             squash::ChunkLog::Clock::time_point until)
    : store_(std::move(store)), manifest_(wanted_manifest(opened, store_, name)) {
    opened.image.coming.first = first_chunks(opened.image, count_);
    log_ = opened.image.coming.log = std::make_shared<squash::ChunkLog>(count_, until);
}

std::vector<uint32_t> ProfileRecord::known() const {
    auto file = store_.find_document(manifest_, store::profile_file, profile_limit);
    return store::parse_profile(file.value_or(""), count_);
}

void ProfileRecord::keep() const {
    std::vector<uint32_t> before = known();
    std::string all = cat(store::format_profile(before), store::format_profile(log_->chunks()));
    std::vector<uint32_t> chunks = store::parse_profile(all, count_);
    if (chunks != before) store_.put_document(manifest_, store::profile_file, store::format_profile(chunks));
}

std::string ProfileRecord::text() const {
    return cat("profile of ", manifest_, ": ", human_bytes(known().size() * ChunkMap::chunk_size), " of ",
               human_bytes(uint64_t{count_} * ChunkMap::chunk_size), "; berth publish takes it along");
}

}  // namespace berth
