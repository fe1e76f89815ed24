#include "runtime/pull/image/stored.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/names.hh"

namespace berth::pull {

namespace {

bool has_layers(const store::Store& store, const std::vector<Digest>& diff_ids) {
    return std::all_of(diff_ids.begin(), diff_ids.end(),
                       [&](const Digest& diff_id) { return bool(store.open_layer(diff_id)); });
}

/// The documents are what their digests say, or an index of them would be of another image.
bool are_whole(const Digest& digest, const std::string& manifest, const Digest& config_digest,
               const std::string& config) {
    return oci::sha256_of(manifest) == digest && oci::sha256_of(config) == config_digest;
}

/// Makes the index from the stored documents, in the user's own store; false when they or the layers are not all there.
bool restore_index(const store::Store& store, const Digest& digest) {
    try {
        std::string bytes = store.read_document(digest, "manifest.json");
        std::string config = store.read_document(digest, "config.json");
        auto manifest = oci::parse_manifest(bytes, "", digest.text());
        const auto& single = std::get<oci::Manifest>(manifest);
        if (!are_whole(digest, bytes, single.config.digest, config)) return false;
        oci::ImageDescription image = oci::parse_config(config, single.layers.size(), digest.text());
        if (!has_layers(store, image.diff_ids)) return false;
        store.publish_image(digest, {bytes, config, make_index(store, image, digest.text())});
        return true;
    } catch (const Error&) {
        // Whatever is wrong with what is here, fetching it again is the remedy.
        return false;
    }
}

/// The layer is no base for an index when its tables are damaged: it is removed, so that the next pull fetches it.
std::optional<squash::BlockSums> sums_of(const store::Store& store, const store::Store::Layer& layer) try {
    return read_seal(layer.file.get(), cat("layer ", layer.name));
} catch (const SysError&) {
    throw;
} catch (const Error& error) {
    // A pull takes another one than that of a shared store, whose owner has to verify it.
    if (layer.shared) throw;
    store::discard_layer(store, layer.name, layer.file.get());
    throw Error(cat(error.what(), "; removed, pull the image again"));
}

}  // namespace

bool is_complete(const store::Store& store, const Digest& digest) {
    auto image = store.image_of(digest);
    return image && (store.can_open(*image) || restore_index(store, *image));
}

bool has_own_layer(const store::Store& store, const Digest& diff_id) {
    store::Store::Layer layer = store.find_layer(diff_id);
    return layer.file && !layer.shared;
}

bool has_good_layer(const store::Store& store, const Digest& diff_id) try {
    store::Store::Layer layer = store.find_layer(diff_id);
    if (!layer.file) return false;
    if (layer.shared) read_seal(layer.file.get(), cat("layer ", layer.name));
    return true;
} catch (const Error&) {
    return false;
}

oci::ImageDescription describe(const store::Store& store, const Digest& digest, const std::string& what) {
    auto manifest = oci::parse_manifest(store.read_document(digest, "manifest.json"), "", what);
    auto* single = std::get_if<oci::Manifest>(&manifest);
    if (single == nullptr) throw Error(cat(what, ": its manifest is an image index"));
    return oci::parse_config(store.read_document(digest, "config.json"), single->layers.size(), what);
}

squash::Tree merged_tree(const store::Store& store, const std::vector<Digest>& diff_ids, const std::string& what,
                         std::vector<squash::LayerInfo>& layers, uint64_t name_limit) {
    std::vector<squash::Tree> trees;
    uint64_t names = 0;
    for (const Digest& diff_id : diff_ids) {
        store::Store::Layer layer = store.find_layer(diff_id);
        if (!layer.file)
            throw Error(
                cat(what, ": its layer ", diff_id, " has gone from the store ", store.path(), "; pull it again"));
        squash::LayerInfo info;
        info.name = layer.name;
        auto sums = sums_of(store, layer);
        trees.push_back(squash::read_tree(layer.file.get(), info.name, static_cast<uint32_t>(layers.size()), info));
        if (sums) squash::add_sums(trees.back(), *sums);
        layers.push_back(info);
        names += trees.back().names();
        if (names > name_limit)
            throw Error(cat(what, ": its layers have more than ", name_limit, " names together; the image is refused"));
    }
    return squash::merge(std::move(trees));
}

std::string make_index(const store::Store& store, const oci::ImageDescription& image, const std::string& what) {
    std::vector<squash::LayerInfo> layers;
    squash::Tree tree = merged_tree(store, image.diff_ids, what, layers);
    return squash::build_index(tree, layers, image.config);
}

}  // namespace berth::pull
