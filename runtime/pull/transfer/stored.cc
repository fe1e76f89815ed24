#include "runtime/pull/transfer/stored.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/transfer/seal.hh"
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

bool has_readable_index(const store::Store& store, const Digest& digest) {
    try {
        squash::Index index = squash::Index::open(store.open_index(digest).get(), digest.text());
        store.open_layers(index);
        return true;
    } catch (const Error&) {
        return false;
    }
}

/// Makes the index from the stored documents; false when they or the layers are not all there.
bool restore_index(const store::Store& store, const Digest& digest) {
    try {
        std::string bytes = store.read_document(digest, "manifest.json");
        std::string config = store.read_document(digest, "config.json");
        auto manifest = oci::parse_manifest(bytes, "", digest.text());
        size_t layers = std::get<oci::Manifest>(manifest).layers.size();
        oci::ImageDescription image = oci::parse_config(config, layers, digest.text());
        if (!has_layers(store, image.diff_ids)) return false;
        store.publish_image(digest, {bytes, config, make_index(store, image, digest.text())});
        return true;
    } catch (const Error&) {
        // Whatever is wrong with what is here, fetching it again is the remedy.
        return false;
    }
}

/// The layer is no base for an index when its tables are damaged: it is removed, so that the next pull fetches it.
std::optional<squash::BlockSums> sums_of(const store::Store& store, const std::string& name, int file) try {
    return read_seal(file, cat("layer ", name));
} catch (const SysError&) {
    throw;
} catch (const Error& error) {
    store::discard_layer(store, name, file);
    throw Error(cat(error.what(), "; removed, pull the image again"));
}

}  // namespace

bool is_complete(const store::Store& store, const Digest& digest) {
    auto image = store.image_of(digest);
    return image && (has_readable_index(store, *image) || restore_index(store, *image));
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
        Fd file = store.open_layer(diff_id);
        if (!file)
            throw Error(
                cat(what, ": its layer ", diff_id, " has gone from the store ", store.path(), "; pull it again"));
        squash::LayerInfo info;
        info.name = store.layer_file(diff_id);
        auto sums = sums_of(store, info.name, file.get());
        trees.push_back(squash::read_tree(file.get(), info.name, static_cast<uint32_t>(layers.size()), info));
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
