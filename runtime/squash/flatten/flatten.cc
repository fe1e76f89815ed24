#include "runtime/squash/flatten/flatten.hh"

#include <sqfs/compressor.h>
#include <sqfs/frag_table.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <map>
#include <new>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/flatten/flatten_blocks.hh"
#include "runtime/squash/flatten/repack.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/write/compression.hh"
#include "runtime/squash/write/writer_file.hh"
#include "runtime/squash/write/writer_tables.hh"
#include "runtime/squash/write/writer_tree.hh"

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

/// The format that most bytes of the tree's files have already, of those that can be written; zstd with 128 KiB when
/// there is none. Pure.
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

LayerInfo format_of(const FlattenForm& form, const TreeData& tree, const std::vector<LayerInfo>& layers) {
    LayerInfo out = common_format(tree, layers);
    if (form.compression) out.codec = stored_codec(form.compression->codec);
    return out;
}

class Flattener {
  public:
    Flattener(const TreeData& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos,
              const FlattenForm& form, int fd, const std::string& what, const Copied& copied);
    void write(const std::vector<AddedFile>& added);

  private:
    bool is_copied(size_t layer) const {
        return infos_[layer].codec == format_.codec && infos_[layer].block_size == format_.block_size;
    }
    void start();
    void copy_blocks();
    void add_fragments();
    void add_nodes();
    NewInode* inode_of(const Node& node, uint32_t number);
    void fill_file(NewInode& inode, const Node& node);
    uint32_t xattrs_of(uint32_t set);
    void add_file(const AddedFile& file);
    void finish();
    void advance(uint64_t bytes) {
        done_ += bytes;
        if (copied_) copied_(done_, total_);
    }

    const TreeData& tree_;
    const std::vector<Fd>& layers_;
    const std::vector<LayerInfo>& infos_;
    uint64_t start_;
    LayerInfo format_;
    Compression compression_;
    int fd_;
    const std::string& what_;
    const Copied& copied_;
    uint64_t done_ = 0, total_ = 0;
    OutputFile file_;
    SqfsPtr<sqfs_compressor_t> compressor_;
    SqfsPtr<sqfs_frag_table_t> fragments_;
    SqfsPtr<sqfs_xattr_writer_t> xattrs_;
    sqfs_super_t super_{};
    uint64_t position_ = 0;
    std::vector<BlockRanges> ranges_;
    std::vector<sqfs_u32> fragment_numbers_;  ///< of each fragment of the tree
    std::optional<Repacker> repacker_;        ///< of what is not copied
    std::vector<NewInode*> inodes_;           ///< of each node; null for what is left out
    std::vector<uint32_t> xattr_indexes_;     ///< of each set of the tree
    EntryTree entries_;
};

Flattener::Flattener(const TreeData& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos,
                     const FlattenForm& form, int fd, const std::string& what, const Copied& copied)
    : tree_(tree),
      layers_(layers),
      infos_(infos),
      start_(form.start),
      format_(format_of(form, tree, infos)),
      compression_(form.compression.value_or(Compression{format_.codec, 0})),
      fd_(fd),
      what_(what),
      copied_(copied),
      file_(fd, what, form.start),
      compressor_(make_compressor(compression_, format_.block_size)),
      fragments_(sqfs_frag_table_create(0)),
      xattrs_(sqfs_xattr_writer_create(0)),
      ranges_(ranges_of(tree, layers.size())) {
    if (!fragments_ || !xattrs_) throw std::bad_alloc();
}

void Flattener::write(const std::vector<AddedFile>& added) {
    start();
    copy_blocks();
    add_fragments();
    add_nodes();
    if (repacker_) repacker_->finish(*fragments_);
    for (const AddedFile& file : added) add_file(file);
    finish();
}

void Flattener::start() {
    // As for layers: no time of making, so that equal images are equal files.
    file_.check(sqfs_super_init(&super_, format_.block_size, 0, static_cast<SQFS_COMPRESSOR>(format_.codec)));
    file_.check(sqfs_super_write(&super_, &file_));
    int written = compressor_->write_options(compressor_.get(), &file_);
    file_.check(std::min(written, 0));
    if (written > 0) super_.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
    position_ = file_.size();
}

void Flattener::copy_blocks() {
    for (size_t i = 0; i < layers_.size(); ++i)
        if (is_copied(i)) total_ += ranges_[i].join();
    for (const Node& node : tree_.nodes)
        if (S_ISREG(node.mode) && !is_copied(node.layer)) total_ += node.size;
    advance(0);
    for (size_t i = 0; i < layers_.size(); ++i)
        if (is_copied(i))
            ranges_[i].copy(layers_[i].get(), fd_, start_, position_, what_,
                            [this](uint64_t bytes) { advance(bytes); });
    file_.check(file_.truncate(&file_, position_));
}

/// A fragment of the merged tree belongs to the one layer whose files refer to it.
void Flattener::add_fragments() {
    constexpr uint64_t unused = UINT64_MAX;
    std::vector<uint64_t> starts(tree_.fragments.size(), unused);
    for (const Node& node : tree_.nodes)
        if (S_ISREG(node.mode) && node.fragment != Node::none && is_copied(node.layer))
            starts[node.fragment] = ranges_[node.layer].moved(tree_.fragments[node.fragment].start);
    fragment_numbers_.resize(starts.size());
    for (size_t i = 0; i < starts.size(); ++i)
        if (starts[i] != unused)
            file_.check(
                sqfs_frag_table_append(fragments_.get(), starts[i], tree_.fragments[i].size, &fragment_numbers_[i]));
}

void Flattener::add_nodes() {
    inodes_.reserve(tree_.nodes.size());
    for (const Node& node : tree_.nodes) inodes_.push_back(inode_of(node, static_cast<uint32_t>(inodes_.size())));
    for (size_t i = 0; i < tree_.nodes.size(); ++i) {
        const Node& node = tree_.nodes[i];
        if (!S_ISDIR(node.mode)) continue;
        for (uint64_t at = node.first; at < node.first + node.count; ++at)
            if (NewInode* child = inodes_[tree_.children[at].node])
                inodes_[i]->children->emplace_hint(inodes_[i]->children->end(), tree_.name(tree_.children[at]), child);
    }
}

NewInode* Flattener::inode_of(const Node& node, uint32_t number) {
    if (S_ISCHR(node.mode) || S_ISBLK(node.mode)) return nullptr;
    NewInode& inode = number == 0 ? entries_.root() : entries_.make(node.mode);
    inode.mode = node.mode;
    inode.uid = node.uid;
    inode.gid = node.gid;
    inode.mtime = static_cast<uint32_t>(std::clamp<int64_t>(node.mtime, 0, std::numeric_limits<uint32_t>::max()));
    inode.xattr = xattrs_of(node.xattrs);
    if (S_ISLNK(node.mode)) inode.target = tree_.target(node);
    if (S_ISREG(node.mode)) fill_file(inode, node);
    return &inode;
}

void Flattener::fill_file(NewInode& inode, const Node& node) {
    inode.file = std::make_unique<StoredFile>();
    if (!is_copied(node.layer)) {
        if (!repacker_) repacker_.emplace(file_, layers_, infos_, compression_, format_.block_size, what_);
        return repacker_->add(*inode.file, tree_, node, [this](uint64_t bytes) { advance(bytes); });
    }
    std::vector<uint32_t> blocks(tree_.blocks.begin() + static_cast<ptrdiff_t>(node.first),
                                 tree_.blocks.begin() + static_cast<ptrdiff_t>(node.first + node.count));
    bool stored =
        std::any_of(blocks.begin(), blocks.end(), [](uint32_t block) { return (block & block_size_mask) > 0; });
    StoredFile& file = *inode.file;
    file.size = node.size;
    file.start = stored ? ranges_[node.layer].moved(node.start) : 0;
    if (node.fragment != Node::none)
        file.fragment = fragment_numbers_[node.fragment], file.fragment_offset = node.fragment_offset;
    for (size_t i = 0; i < blocks.size(); ++i)
        if (blocks[i] == 0)
            file.holes += std::min<uint64_t>(format_.block_size, node.size - i * uint64_t{format_.block_size});
    file.blocks = std::move(blocks);
}

uint32_t Flattener::xattrs_of(uint32_t set) {
    if (set == 0) return no_xattrs;
    if (xattr_indexes_.empty()) xattr_indexes_.resize(tree_.xattr_sets.size(), no_xattrs);
    if (xattr_indexes_[set] != no_xattrs) return xattr_indexes_[set];
    file_.check(sqfs_xattr_writer_begin(xattrs_.get(), 0));
    for (const auto& [name, value] : tree_.xattr_sets[set])
        file_.check(sqfs_xattr_writer_add(xattrs_.get(), name.c_str(), value.data(), value.size()),
                    "storing an extended attribute");
    file_.check(sqfs_xattr_writer_end(xattrs_.get(), &xattr_indexes_[set]));
    return xattr_indexes_[set];
}

/// Stored without compression, in blocks of its own.
void Flattener::add_file(const AddedFile& file) {
    for (size_t slash = file.path.find('/'); slash != file.path.npos; slash = file.path.find('/', slash + 1))
        if (const NewInode* parent = entries_.find(file.path.substr(0, slash));
            parent != nullptr && !parent->is_directory())
            return;
    if (S_ISLNK(file.mode) || S_ISDIR(file.mode)) {
        NewInode& inode = entries_.make(file.mode);
        inode.mode = S_ISLNK(file.mode) ? S_IFLNK | 0777 : file.mode;
        inode.target = file.content;
        return entries_.put(file.path, inode);
    }
    std::vector<uint32_t> blocks;
    for (size_t left = file.content.size(); left > 0; left -= std::min<size_t>(left, format_.block_size))
        blocks.push_back(static_cast<uint32_t>(std::min<size_t>(left, format_.block_size)) | block_uncompressed);
    uint64_t start = file_.size();
    file_.check(file_.write_at(&file_, start, file.content.data(), file.content.size()));
    NewInode& inode = entries_.make(S_IFREG | file.mode);
    inode.file = std::make_unique<StoredFile>(
        StoredFile{.size = file.content.size(), .start = start, .blocks = std::move(blocks)});
    entries_.put(file.path, inode);
}

void Flattener::finish() {
    write_tables(entries_, {.file = file_,
                            .compressor = compressor_.get(),
                            .fragments = fragments_.get(),
                            .xattrs = xattrs_.get(),
                            .super = super_});
    super_.bytes_used = file_.size();
    file_.check(sqfs_super_write(&super_, &file_));
    // Loop devices have whole blocks: without the padding the kernel could not read the last table.
    uint64_t padded = (file_.size() + SQFS_DEVBLK_SIZE - 1) / SQFS_DEVBLK_SIZE * SQFS_DEVBLK_SIZE;
    file_.check(file_.truncate(&file_, padded));
}

}  // namespace

void flatten(const Tree& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos,
             const FlattenForm& form, int fd, const std::string& what, const Copied& copied) {
    Flattener(tree.data(), layers, infos, form, fd, what, copied).write(form.added);
}

}  // namespace berth::squash
