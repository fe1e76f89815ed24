#include "runtime/squash/flatten_repack.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr const char* writing = "writing a squashfs file";
constexpr uint32_t default_block_size = 128 << 10;
constexpr unsigned zstd_level = 1;
// Much at a time: the reader adds up the sizes of all blocks before the first one it reads.
constexpr size_t piece = 16 << 20;
constexpr size_t cache_bytes = 8 << 20;

/// libsquashfs reads lzo and the old lzma nowhere, and may be built without others.
bool can_write(const LayerInfo& format) {
    sqfs_compressor_config_t config;
    sqfs_compressor_t* made = nullptr;
    auto codec = static_cast<SQFS_COMPRESSOR>(format.codec);
    bool good = sqfs_compressor_config_init(&config, codec, format.block_size, 0) == 0 && sqfs_compressor_create(&config, &made) == 0;
    SqfsPtr<sqfs_compressor_t> owner(made);
    return good;
}

std::vector<Fd> copies_of(const std::vector<Fd>& files) {
    std::vector<Fd> out;
    for (const Fd& file : files) {
        out.emplace_back(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
        if (!out.back()) throw SysError("opening a layer once more");
    }
    return out;
}

FileData data_of(const Tree::Impl& tree, const Node& node) {
    FileData out;
    out.layer = node.layer;
    out.size = node.size;
    out.start = node.start;
    out.blocks = tree.blocks.data() + node.first;
    out.block_count = node.count;
    if (node.fragment == Node::none) return out;
    out.has_fragment = true;
    out.fragment_start = tree.fragments[node.fragment].start;
    out.fragment_size = tree.fragments[node.fragment].size;
    out.fragment_offset = node.fragment_offset;
    return out;
}

}  // namespace

LayerInfo common_format(const Tree::Impl& tree, const std::vector<LayerInfo>& layers) {
    std::map<std::pair<Codec, uint32_t>, uint64_t> bytes;
    for (const LayerInfo& layer : layers)
        if (can_write(layer)) bytes[{layer.codec, layer.block_size}] = 0;
    for (const Node& node : tree.nodes) {
        if (!S_ISREG(node.mode)) continue;
        auto found = bytes.find({layers.at(node.layer).codec, layers[node.layer].block_size});
        if (found != bytes.end()) found->second += node.size;
    }
    auto most = std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == bytes.end()) return {"", Codec::zstd, default_block_size};
    return {"", most->first.first, most->first.second};
}

SqfsPtr<sqfs_compressor_t> make_flat_compressor(const OutputFile& file, const LayerInfo& format) {
    sqfs_compressor_config_t config;
    auto codec = static_cast<SQFS_COMPRESSOR>(format.codec);
    file.check(sqfs_compressor_config_init(&config, codec, format.block_size, 0), "setting up the compressor");
    if (format.codec == Codec::zstd) config.level = zstd_level;
    sqfs_compressor_t* compressor = nullptr;
    file.check(sqfs_compressor_create(&config, &compressor), "setting up the compressor");
    return SqfsPtr<sqfs_compressor_t>(compressor);
}

Repacker::Repacker(const Tree::Impl& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos, uint32_t block_size, OutputFile& file,
                   sqfs_compressor_t* compressor, sqfs_frag_table_t* fragments, const std::string& what)
    : tree_(tree),
      reader_(copies_of(layers), infos, cache_bytes),
      block_size_(block_size),
      file_(file),
      compressor_(compressor),
      fragments_(fragments),
      what_(what),
      packed_(size_t{2} * block_size) {}

/// The on-disk size, with the flag of a block that does not compress; 0 for a block of zeros, which is a hole.
uint32_t Repacker::write_block(const char* data, size_t size) {
    if (std::all_of(data, data + size, [](char c) { return c == 0; })) return 0;
    auto got = compressor_->do_block(compressor_, reinterpret_cast<const sqfs_u8*>(data), static_cast<sqfs_u32>(size), reinterpret_cast<sqfs_u8*>(packed_.data()),
                                     static_cast<sqfs_u32>(packed_.size()));
    file_.check(std::min(got, 0), writing);
    bool smaller = got > 0 && static_cast<size_t>(got) < size;
    size_t bytes = smaller ? static_cast<size_t>(got) : size;
    file_.check(file_.write_at(&file_, file_.size(), smaller ? packed_.data() : data, bytes), writing);
    return static_cast<uint32_t>(bytes) | (smaller ? 0 : block_uncompressed);
}

void Repacker::add_tail(const char* data, size_t size, RepackedFile& out) {
    if (tail_.size() + size > block_size_) finish();
    out.fragment = static_cast<uint32_t>(sqfs_frag_table_get_size(fragments_));
    out.fragment_offset = static_cast<uint32_t>(tail_.size());
    tail_.insert(tail_.end(), data, data + size);
}

RepackedFile Repacker::add(const Node& node) {
    RepackedFile out;
    out.start = file_.size();
    FileData file = data_of(tree_, node);
    std::vector<char> buffer(std::min<uint64_t>(node.size, piece));
    for (uint64_t at = 0; at < node.size;) {
        long got = reader_.read(file, at, buffer.data(), buffer.size());
        if (got <= 0) throw Error(cat("writing ", what_, ": reading a file of the image: ", got < 0 ? reason(static_cast<int>(-got)) : "it ends early", "; the image is damaged"));
        auto size = static_cast<size_t>(got);
        for (size_t done = 0; done < size; done += block_size_) {
            size_t part = std::min<size_t>(block_size_, size - done);
            // Only the last part of a file is shorter than a block: pieces are whole blocks.
            if (part < block_size_)
                add_tail(buffer.data() + done, part, out);
            else
                out.blocks.push_back(write_block(buffer.data() + done, part));
        }
        at += size;
    }
    return out;
}

void Repacker::finish() {
    if (tail_.empty()) return;
    uint64_t start = file_.size();
    uint32_t size = write_block(tail_.data(), tail_.size());
    if (size == 0) {
        // Unlike a block a fragment cannot be a hole.
        file_.check(file_.write_at(&file_, start, tail_.data(), tail_.size()), writing);
        size = static_cast<uint32_t>(tail_.size()) | block_uncompressed;
    }
    sqfs_u32 index = 0;
    file_.check(sqfs_frag_table_append(fragments_, start, size, &index), writing);
    tail_.clear();
}

}  // namespace berth::squash
