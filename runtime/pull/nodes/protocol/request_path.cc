#include "runtime/pull/nodes/protocol/request_path.hh"

#include <vector>

#include "runtime/base/text.hh"
#include "runtime/pull/nodes/protocol/chunk_head.hh"

namespace berth::pull::nodes {

std::string_view name_in(std::string_view path) {
    path.remove_prefix(path.starts_with('/') ? 1 : path.size());
    return path.substr(0, path.find('/'));
}

std::string text_of(const LayerPath& path) { return cat('/', path.layer, '/', path.stripe, '/', path.place); }

std::optional<LayerPath> parse_layer_path(std::string_view text) {
    std::vector<std::string> words = split(std::string(text), '/');
    uint64_t stripe = 0, place = 0;
    if (words.size() != 4 || !words[0].empty() || !parse_number(words[2], stripe_count - 1, stripe) ||
        !parse_number(words[3], LayerPath::place_limit, place))
        return std::nullopt;
    return LayerPath{words[1], static_cast<unsigned>(stripe), static_cast<uint32_t>(place)};
}

std::string text_of(const ImagePath& path) {
    std::string start = cat('/', path.manifest, '/');
    if (path.is_all) return cat(start, "all/", path.node ? std::to_string(*path.node) : "-");
    return cat(start, path.chunks.first, '/', path.chunks.count);
}

std::optional<ImagePath> parse_image_path(std::string_view text, uint32_t chunks) {
    std::vector<std::string> words = split(std::string(text), '/');
    if (words.size() != 4 || !words[0].empty()) return std::nullopt;
    ImagePath out{.manifest = words[1], .is_all = words[2] == "all"};
    uint64_t first = 0, count = 0;
    if (out.is_all && words[3] == "-") return out;
    if (out.is_all) {
        if (!parse_number(words[3], UINT32_MAX, first)) return std::nullopt;
        out.node = static_cast<unsigned>(first);
        return out;
    }
    bool is_asked = parse_number(words[2], chunks, first) && parse_number(words[3], ImagePath::count_limit, count) &&
                    count > 0 && first + count <= chunks;
    if (!is_asked) return std::nullopt;
    out.chunks = {static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
    return out;
}

}  // namespace berth::pull::nodes
