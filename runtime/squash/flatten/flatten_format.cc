#include "runtime/squash/flatten/flatten_format.hh"

#include <sqfs/compressor.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "runtime/squash/write/writer_file.hh"

namespace berth::squash {

namespace {

constexpr uint32_t default_block_size = 128 << 10;

/// libsquashfs reads lzo and the old lzma nowhere, and may be built without others.
bool can_write(const LayerInfo& format) {
    sqfs_compressor_config_t config;
    sqfs_compressor_t* made = nullptr;
    auto codec = static_cast<SQFS_COMPRESSOR>(format.codec);
    bool good = sqfs_compressor_config_init(&config, codec, format.block_size, 0) == 0 &&
                sqfs_compressor_create(&config, &made) == 0;
    SqfsPtr<sqfs_compressor_t> owner(made);
    return good;
}

}  // namespace

LayerInfo common_format(const TreeData& tree, const std::vector<LayerInfo>& layers) {
    std::map<std::pair<Codec, uint32_t>, uint64_t> bytes;
    for (const LayerInfo& layer : layers)
        if (can_write(layer)) bytes[{layer.codec, layer.block_size}] = 0;
    for (const Node& node : tree.nodes) {
        if (!S_ISREG(node.mode)) continue;
        auto found = bytes.find({layers.at(node.layer).codec, layers[node.layer].block_size});
        if (found != bytes.end()) found->second += node.size;
    }
    auto most =
        std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == bytes.end()) return {"", Codec::zstd, default_block_size};
    return {"", most->first.first, most->first.second};
}

}  // namespace berth::squash
