// What one node of a step asks another one for: the paths of requests. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/chunk_map.hh"

namespace berth::pull::nodes {

/// The first word of a path: what the request is about.
std::string_view name_in(std::string_view path);

/// "/DIFF-ID-IN-HEX/STRIPE/PLACE": the chunks of a stripe of a layer, from that place on.
struct LayerPath {
    /// Of a place, so that the number of the chunk there is one as well: layers of 64 TiB.
    static constexpr uint32_t place_limit = (1U << 29) - 1;

    std::string layer;  ///< hex of the diff_id
    unsigned stripe = 0;
    uint32_t place = 0;
};
std::string text_of(const LayerPath& path);
std::optional<LayerPath> parse_layer_path(std::string_view text);

/// "/MANIFEST-IN-HEX/FIRST/COUNT": chunks of an image that runs already; or ".../all/NODE": all that the node takes
/// from the one that is asked.
struct ImagePath {
    static constexpr uint32_t count_limit = 64;

    std::string manifest;  ///< hex
    bool is_all = false;
    std::optional<unsigned> node = {};  ///< who asks for all, by its own word; nothing for "-", one without a place
    ChunkMap::Chunks chunks = {};       ///< otherwise
};
std::string text_of(const ImagePath& path);
/// `chunks`: so many the image has.
std::optional<ImagePath> parse_image_path(std::string_view text, uint32_t chunks);

}  // namespace berth::pull::nodes
