#include "runtime/squash/flatten.hh"

#include <sqfs/compressor.h>
#include <sqfs/frag_table.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/flatten_blocks.hh"
#include "runtime/squash/flatten_repack.hh"
#include "runtime/squash/tree_data.hh"
#include "runtime/squash/writer_file.hh"
#include "runtime/squash/writer_tables.hh"
#include "runtime/squash/writer_tree.hh"

namespace berth::squash {

namespace {

constexpr const char* writing = "writing a squashfs file";
constexpr uint32_t no_fragment = 0xFFFFFFFF;

class Flattener {
  public:
    Flattener(const Tree::Impl& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos, int fd, const std::string& what);
    void write(const std::vector<AddedFile>& added);

  private:
    void start();
    void copy_blocks();
    void add_fragments();
    void add_nodes();
    NewInode* inode_of(const Node& node, uint32_t number);
    void fill_file(NewInode& inode, const Node& node);
    RepackedFile placed(const Node& node);
    uint32_t xattrs_of(uint32_t set);
    void add_file(const AddedFile& file);
    sqfs_inode_generic_t* new_file(uint64_t size, uint64_t start, const std::vector<uint32_t>& blocks) const;
    void finish();

    const Tree::Impl& tree_;
    const std::vector<Fd>& layers_;
    LayerInfo format_;
    int fd_;
    const std::string& what_;
    OutputFile file_;
    SqfsPtr<sqfs_compressor_t> compressor_;
    SqfsPtr<sqfs_frag_table_t> fragments_;
    SqfsPtr<sqfs_xattr_writer_t> xattrs_;
    sqfs_super_t super_{};
    uint64_t position_ = 0;
    Repacker repacker_;
    std::vector<bool> copied_;            ///< of each layer: its blocks are as those of the result
    std::vector<BlockRanges> ranges_;
    std::vector<uint32_t> fragment_indexes_;  ///< of each fragment of the tree
    std::vector<NewInode*> inodes_;       ///< of each node; null for what is left out
    std::vector<uint32_t> xattr_indexes_;  ///< of each set of the tree
    EntryTree entries_;
};

std::vector<bool> layers_of_format(const std::vector<LayerInfo>& infos, const LayerInfo& format) {
    std::vector<bool> out;
    for (const LayerInfo& info : infos) out.push_back(same_format(info, format));
    return out;
}

template <typename T>
SqfsPtr<T> owned(T* object) {
    if (object == nullptr) throw std::bad_alloc();
    return SqfsPtr<T>(object);
}

Flattener::Flattener(const Tree::Impl& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos, int fd, const std::string& what)
    : tree_(tree),
      layers_(layers),
      format_(common_format(tree, infos)),
      fd_(fd),
      what_(what),
      file_(fd),
      compressor_(make_flat_compressor(file_, format_)),
      fragments_(owned(sqfs_frag_table_create(0))),
      xattrs_(owned(sqfs_xattr_writer_create(0))),
      repacker_(tree, layers, infos, format_.block_size, file_, compressor_.get(), fragments_.get(), what),
      copied_(layers_of_format(infos, format_)),
      ranges_(ranges_of(tree, copied_)) {}

void Flattener::write(const std::vector<AddedFile>& added) {
    start();
    copy_blocks();
    add_fragments();
    add_nodes();
    repacker_.finish();
    for (const AddedFile& file : added) add_file(file);
    finish();
}

void Flattener::start() {
    // As for layers: no time of making, so that equal images are equal files.
    file_.check(sqfs_super_init(&super_, format_.block_size, 0, static_cast<SQFS_COMPRESSOR>(format_.codec)), writing);
    file_.check(sqfs_super_write(&super_, &file_), writing);
    int written = compressor_->write_options(compressor_.get(), &file_);
    file_.check(std::min(written, 0), writing);
    if (written > 0) super_.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
    position_ = file_.size();
}

void Flattener::copy_blocks() {
    for (size_t i = 0; i < layers_.size(); ++i) ranges_[i].copy(layers_[i].get(), fd_, position_, what_);
    file_.check(file_.truncate(&file_, position_), writing);
}

/// A fragment of the merged tree belongs to the one layer whose files refer to it.
void Flattener::add_fragments() {
    fragment_indexes_.assign(tree_.fragments.size(), Node::none);
    for (const Node& node : tree_.nodes) {
        if (!S_ISREG(node.mode) || node.fragment == Node::none || !copied_[node.layer] || fragment_indexes_[node.fragment] != Node::none) continue;
        const Fragment& fragment = tree_.fragments[node.fragment];
        file_.check(sqfs_frag_table_append(fragments_.get(), ranges_[node.layer].moved(fragment.start), fragment.size, &fragment_indexes_[node.fragment]), writing);
    }
}

void Flattener::add_nodes() {
    inodes_.reserve(tree_.nodes.size());
    for (const Node& node : tree_.nodes) inodes_.push_back(inode_of(node, static_cast<uint32_t>(inodes_.size())));
    for (size_t i = 0; i < tree_.nodes.size(); ++i) {
        const Node& node = tree_.nodes[i];
        if (!S_ISDIR(node.mode)) continue;
        for (uint64_t at = node.first; at < node.first + node.count; ++at)
            if (NewInode* child = inodes_[tree_.children[at].node]) inodes_[i]->children->emplace_hint(inodes_[i]->children->end(), tree_.name(tree_.children[at]), child);
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

/// Where the file's data is in the result; brings it there when it was not copied.
RepackedFile Flattener::placed(const Node& node) {
    if (!copied_[node.layer]) return repacker_.add(node);
    RepackedFile out;
    auto first = tree_.blocks.begin() + static_cast<ptrdiff_t>(node.first);
    out.blocks.assign(first, first + node.count);
    bool stored = std::any_of(out.blocks.begin(), out.blocks.end(), [](uint32_t block) { return (block & block_size_mask) > 0; });
    if (stored) out.start = ranges_[node.layer].moved(node.start);
    if (node.fragment == Node::none) return out;
    out.fragment = fragment_indexes_[node.fragment];
    out.fragment_offset = node.fragment_offset;
    return out;
}

void Flattener::fill_file(NewInode& inode, const Node& node) {
    RepackedFile file = placed(node);
    inode.file = new_file(node.size, file.start, file.blocks);
    if (file.fragment != Node::none) file_.check(sqfs_inode_set_frag_location(inode.file, file.fragment, file.fragment_offset), writing);
    uint64_t holes = 0;
    for (size_t i = 0; i < file.blocks.size(); ++i)
        if (file.blocks[i] == 0) holes += std::min<uint64_t>(format_.block_size, node.size - i * uint64_t{format_.block_size});
    if (holes == 0) return;
    file_.check(sqfs_inode_make_extended(inode.file), writing);
    inode.file->data.file_ext.sparse = holes;
}

sqfs_inode_generic_t* Flattener::new_file(uint64_t size, uint64_t start, const std::vector<uint32_t>& blocks) const {
    size_t payload = blocks.size() * sizeof(uint32_t);
    auto* record = static_cast<sqfs_inode_generic_t*>(std::calloc(1, sizeof(sqfs_inode_generic_t) + payload));
    if (record == nullptr) throw std::bad_alloc();
    record->base.type = SQFS_INODE_FILE;
    record->payload_bytes_available = record->payload_bytes_used = static_cast<sqfs_u32>(payload);
    if (payload > 0) std::memcpy(record->extra, blocks.data(), payload);
    int failed = sqfs_inode_set_file_size(record, size) | sqfs_inode_set_file_block_start(record, start) | sqfs_inode_set_frag_location(record, no_fragment, 0);
    if (failed != 0) std::free(record);
    file_.check(failed, writing);
    return record;
}

uint32_t Flattener::xattrs_of(uint32_t set) {
    if (set == 0) return no_xattrs;
    if (xattr_indexes_.empty()) xattr_indexes_.resize(tree_.xattr_sets.size(), no_xattrs);
    if (xattr_indexes_[set] != no_xattrs) return xattr_indexes_[set];
    file_.check(sqfs_xattr_writer_begin(xattrs_.get(), 0), writing);
    for (const auto& [name, value] : tree_.xattr_sets[set])
        file_.check(sqfs_xattr_writer_add(xattrs_.get(), name.c_str(), value.data(), value.size()), "storing an extended attribute");
    file_.check(sqfs_xattr_writer_end(xattrs_.get(), &xattr_indexes_[set]), writing);
    return xattr_indexes_[set];
}

/// Stored without compression, in blocks of its own.
void Flattener::add_file(const AddedFile& file) {
    for (size_t slash = file.path.find('/'); slash != file.path.npos; slash = file.path.find('/', slash + 1))
        if (const NewInode* parent = entries_.find(file.path.substr(0, slash)); parent != nullptr && !parent->is_directory()) return;
    std::vector<uint32_t> blocks;
    for (size_t left = file.content.size(); left > 0; left -= std::min<size_t>(left, format_.block_size))
        blocks.push_back(static_cast<uint32_t>(std::min<size_t>(left, format_.block_size)) | block_uncompressed);
    uint64_t start = file_.size();
    file_.check(file_.write_at(&file_, start, file.content.data(), file.content.size()), writing);
    NewInode& inode = entries_.make(S_IFREG | file.mode);
    inode.file = new_file(file.content.size(), start, blocks);
    entries_.put(file.path, inode);
}

void Flattener::finish() {
    write_tables(entries_, {file_, compressor_.get(), fragments_.get(), xattrs_.get(), super_});
    super_.bytes_used = file_.size();
    file_.check(sqfs_super_write(&super_, &file_), writing);
    // Loop devices have whole blocks: without the padding the kernel could not read the last table.
    uint64_t padded = (file_.size() + SQFS_DEVBLK_SIZE - 1) / SQFS_DEVBLK_SIZE * SQFS_DEVBLK_SIZE;
    file_.check(file_.truncate(&file_, padded), writing);
}

}  // namespace

void flatten(const Tree& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos, const std::vector<AddedFile>& added, int fd,
             const std::string& what) {
    Flattener(tree.impl(), layers, infos, fd, what).write(added);
}

}  // namespace berth::squash
