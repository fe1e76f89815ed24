#include "runtime/squash/flatten/repack.hh"

#include <fcntl.h>

#include "runtime/base/cpus.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr size_t cache_bytes = 8 << 20;

std::vector<Fd> copies_of(const std::vector<Fd>& files) {
    std::vector<Fd> out;
    for (const Fd& file : files) {
        out.emplace_back(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
        if (!out.back()) throw SysError("opening a layer once more");
    }
    return out;
}

PoolLimits limits_for(uint32_t block_size) {
    unsigned threads = usable_cpus();
    return {.threads = threads, .buffers = 2 * threads + 3, .block_size = block_size};
}

FileData data_of(const TreeData& tree, const Node& node) {
    FileData data{.layer = node.layer,
                  .size = node.size,
                  .start = node.start,
                  .blocks = tree.blocks.data() + node.first,
                  .block_count = node.count};
    if (!tree.hashes.empty()) data.hashes = tree.hashes.data() + node.first;
    if (node.fragment == Node::none) return data;
    data.has_fragment = true;
    data.fragment_start = tree.fragments[node.fragment].start;
    data.fragment_size = tree.fragments[node.fragment].size;
    data.fragment_hash = tree.fragment_hash(node.fragment);
    data.fragment_offset = node.fragment_offset;
    return data;
}

}  // namespace

Repacker::Repacker(OutputFile& file, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos,
                   const Compression& compression, uint32_t block_size, std::string what)
    : reader_(copies_of(layers), infos, cache_bytes),
      pool_(compression, limits_for(block_size)),
      cutter_(file, pool_),
      what_(std::move(what)),
      piece_(1 << 20) {}

void Repacker::add(StoredFile& file, const TreeData& tree, const Node& node,
                   const std::function<void(uint64_t bytes)>& advance) {
    FileData data = data_of(tree, node);
    files_.push_back(&file);
    cutter_.begin(file);
    for (uint64_t at = 0; at < node.size;) {
        long got = reader_.read(data, at, piece_);
        if (got <= 0) throw Error(cat("writing ", what_, ": a layer is damaged; run berth verify --repair"));
        cutter_.append({piece_.data(), static_cast<size_t>(got)});
        at += static_cast<uint64_t>(got);
        advance(static_cast<uint64_t>(got));
    }
    cutter_.end();
}

void Repacker::finish(sqfs_frag_table_t& table) {
    auto before = static_cast<uint32_t>(sqfs_frag_table_get_size(&table));
    cutter_.finish(table);
    for (StoredFile* file : files_)
        if (file->fragment != StoredFile::no_fragment) file->fragment += before;
}

}  // namespace berth::squash
