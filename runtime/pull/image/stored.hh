// What the store already has of an image, and the making of an image's index from its layers.
#pragma once
#include <string>
#include <vector>

#include "runtime/oci/manifest.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// True when the image of `digest` can be run: its index is readable and every layer is here. An index that is of
/// another version or damaged is made anew from the layers. Does no request.
bool is_complete(const store::Store& store, const Digest& digest);

/// True when the user's own store has the layer.
bool has_own_layer(const store::Store& store, const Digest& diff_id);
/// True when it has it, or a shared store has it with whole tables: then no pull need fetch it.
bool has_good_layer(const store::Store& store, const Digest& diff_id);

/// Names in all layers of an image together, which a merge holds in memory: about 200 bytes each.
inline constexpr uint64_t image_name_limit = 10'000'000;

/// The layers laid over one another; `layers`, which is empty, receives what they are. Throws Error when one is not in
/// the store, or when they have more than `name_limit` names together.
squash::Tree merged_tree(const store::Store& store, const std::vector<Digest>& diff_ids, const std::string& what,
                         std::vector<squash::LayerInfo>& layers, uint64_t name_limit = image_name_limit);
/// What the manifest and config of an image that is in the store say. Throws Error naming `what`.
oci::ImageDescription describe(const store::Store& store, const Digest& digest, const std::string& what);

/// The bytes of the index file: the layers of `image`, which are in the store, laid over one another.
std::string make_index(const store::Store& store, const oci::ImageDescription& image, const std::string& what);

}  // namespace berth::pull
