#include "runtime/pull/lazy/early_parts.hh"

#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/store/names.hh"

namespace berth::pull {

namespace {

std::string packed(const std::string& bytes, const std::string& what) {
    constexpr int level = 6;
    std::string out(ZSTD_compressBound(bytes.size()), '\0');
    size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), level);
    if (ZSTD_isError(size) != 0) throw Error(cat("packing ", what, ": ", ZSTD_getErrorName(size)));
    out.resize(size);
    return out;
}

/// Layers are called what a store calls those that it pulls itself, wherever these lie.
std::string index_of(const store::Store& store, const oci::ImageDescription& image, const std::string& what) {
    std::vector<squash::LayerInfo> layers;
    squash::Tree tree = merged_tree(store, image.diff_ids, what, layers);
    for (size_t i = 0; i < layers.size(); ++i) layers[i].name = store::layer_file_name(image.diff_ids[i]);
    return squash::build_index(tree, layers, image.config);
}

void add_sums(std::string& out, int fd, const std::string& what) {
    std::vector<char> buffer(ChunkMap::chunk_size);
    auto size = static_cast<uint64_t>(sys::stat_of(fd, what).st_size);
    for (uint64_t at = 0; at < size; at += buffer.size()) {
        std::span<char> part = std::span(buffer).first(std::min<uint64_t>(buffer.size(), size - at));
        if (!sys::pread_exact(fd, part, at, what)) throw SysError(cat("reading ", what), EIO);
        auto sum = oci::sha256_bytes({part.data(), part.size()});
        out.append(reinterpret_cast<const char*>(sum.data()), sum.size());
    }
}

}  // namespace

EarlyParts make_early_parts(const store::Store& store, const oci::ImageDescription& image, const std::string& what) {
    EarlyParts out{packed(index_of(store, image, what), cat("the index of ", what)), {}};
    std::vector<Digest> done;
    for (const Digest& diff_id : image.diff_ids) {
        if (std::ranges::find(done, diff_id) != done.end()) continue;
        add_sums(out.sums, store.open_layer(diff_id).get(), cat("layer ", diff_id));
        done.push_back(diff_id);
    }
    return out;
}

ChunkSums::ChunkSums(std::string bytes, uint64_t count, const std::string& what) : bytes_(std::move(bytes)) {
    if (bytes_.size() != count * size)
        throw Error(cat(what, ": there are ", bytes_.size() / size, " sums of parts of layers instead of ", count));
}

bool ChunkSums::match(uint32_t chunk, std::string_view bytes) const {
    auto sum = oci::sha256_bytes(bytes);
    return uint64_t{chunk} < bytes_.size() / size && std::memcmp(bytes_.data() + chunk * size, sum.data(), size) == 0;
}

}  // namespace berth::pull
