// Where the layers of an image came from that were not converted here: kept in the image's folder, for `berth verify`.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/digest.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/inventory.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// For people, by diff_id: "n1, through nodes of the step". A layer that is missing here was converted on this machine,
/// or was here before the image.
using LayerOrigins = std::map<Digest, std::string>;

/// Adds to what is known of an image in the store; an empty origin takes back what is known of the layer. Silently
/// without effect where that cannot be written: no pull fails for it.
void note_origins(const store::Store& store, const Digest& manifest, const LayerOrigins& origins);

/// Of an image in the user's own store. Whatever is no line of note_origins(), or cannot be read, is passed over.
LayerOrigins origins_of(const store::Store& store, const Digest& manifest);

/// Of all images in the user's own store.
LayerOrigins origins_of(const store::Store& store, const store::Inventory& inventory);

/// Of a layer that came ready-made from the repository of `place`.
std::string origin_of(const plan::Reference& place);

/// The end of a sentence about a layer that is not what it should be; empty where it was converted here.
std::string origin_clause(const LayerOrigins& origins, const Digest& layer);

/// The text of the file, and back.
std::string text_of(const LayerOrigins& origins);
LayerOrigins parse_origins(std::string_view text);

}  // namespace berth::pull
