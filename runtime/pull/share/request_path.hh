// What one node of a step asks another one for: the paths of requests. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/arrivals.hh"
#include "runtime/base/digest.hh"

namespace berth::pull::share {

/// "/DIFF-ID-IN-HEX/STRIPE/PLACE": the pieces of a stripe of a layer, from that place on.
struct LayerPath {
    /// Of a place, so that the number of the piece there is one as well: layers of 64 TiB.
    static constexpr uint32_t place_limit = (1U << 29) - 1;

    std::string layer;  ///< hex of the diff_id
    unsigned stripe = 0;
    uint32_t place = 0;
};
std::string text_of(const LayerPath& path);
std::optional<LayerPath> parse_layer_path(std::string_view text);

/// "/coming/MANIFEST-IN-HEX/FIRST/COUNT": pieces of an image that has started; or ".../all/NODE": all that the node
/// takes from the one that is asked.
struct ComingPath {
    static constexpr const char* start = "/coming/";
    static constexpr uint32_t count_limit = 64;

    std::string manifest;  ///< hex
    bool is_all = false;
    std::optional<unsigned> node = {};  ///< who asks for all, by its own word; nothing for "-", one without a place
    Arrivals::Pieces pieces = {};       ///< otherwise
};
std::string text_of(const ComingPath& path);
/// `pieces`: so many the image has.
std::optional<ComingPath> parse_coming_path(std::string_view text, uint32_t pieces);

}  // namespace berth::pull::share
