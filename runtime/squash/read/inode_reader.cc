#include "runtime/squash/read/inode_reader.hh"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

// Types of inodes; the extended form of each is seven more. Layouts: Linux fs/squashfs/squashfs_fs.h.
constexpr uint16_t type_directory = 1;
constexpr uint16_t type_socket = 7;
constexpr uint16_t to_extended = 7;
constexpr uint32_t type_bits[] = {0, S_IFDIR, S_IFREG, S_IFLNK, S_IFBLK, S_IFCHR, S_IFIFO, S_IFSOCK};

constexpr uint32_t target_limit = 4095;    // PATH_MAX without its NUL
constexpr uint32_t dot_entries_bytes = 3;  // squashfs counts "." and ".." into a directory's size

struct __attribute__((packed)) BasicDirectory {
    uint32_t block, links;
    uint16_t bytes, offset;
    uint32_t parent;
};
struct __attribute__((packed)) ExtendedDirectory {
    uint32_t links, bytes, block, parent;
    uint16_t index_count, offset;
    uint32_t xattr;
};
struct __attribute__((packed)) BasicFile {
    uint32_t start, fragment, offset, size;
};
struct __attribute__((packed)) ExtendedFile {
    uint64_t start, size, sparse;
    uint32_t links, fragment, offset, xattr;
};

}  // namespace

struct InodeReader::Header {
    uint16_t type, mode, uid, gid;
    uint32_t mtime, number;
};

InodeReader::InodeReader(Metadata& metadata, const Super& super, uint32_t layer, TreeData& tree)
    : metadata_(metadata),
      super_(super),
      layer_(layer),
      tree_(tree),
      ids_(metadata.table<uint32_t>(super.id_table, super.ids)),
      xattrs_(metadata, super.xattr_table) {
    if (super.fragments > 0) tree.fragments = metadata.table<Fragment>(super.fragment_table, super.fragments);
}

uint32_t InodeReader::id(uint16_t position) const {
    if (position >= ids_.size()) metadata_.file().damaged("an inode has an owner that is not in the table");
    return ids_[position];
}

Node InodeReader::read(uint64_t reference, Listing& listing) {
    Cursor cursor(metadata_, super_.inode_table, reference);
    auto header = cursor.take<Header>();
    bool extended = header.type > type_socket;
    uint16_t type = extended ? header.type - to_extended : header.type;
    if (type < type_directory || type > type_socket)
        metadata_.file().damaged(cat("an inode has the unknown type ", header.type));
    Node node;
    node.mode = type_bits[type] | (header.mode & 07777U);
    node.uid = id(header.uid);
    node.gid = id(header.gid);
    node.mtime = header.mtime;
    node.layer = layer_;
    switch (node.mode & S_IFMT) {
        case S_IFDIR:
            read_directory(cursor, extended, node, listing);
            break;
        case S_IFREG:
            read_file(cursor, extended, node);
            break;
        case S_IFLNK:
            read_symlink(cursor, extended, node);
            break;
        default:
            read_special(cursor, extended, S_ISBLK(node.mode) || S_ISCHR(node.mode), node);
    }
    return node;
}

void InodeReader::read_directory(Cursor& cursor, bool extended, Node& node, Listing& listing) {
    auto place = [&](uint32_t block, uint16_t offset, uint32_t bytes) {
        listing.reference = uint64_t{block} << 16 | offset;
        listing.bytes = bytes > dot_entries_bytes ? bytes - dot_entries_bytes : 0;
    };
    if (extended) {
        auto raw = cursor.take<ExtendedDirectory>();
        place(raw.block, raw.offset, raw.bytes);
        node.xattrs = xattrs_.set(raw.xattr, tree_);
    } else {
        auto raw = cursor.take<BasicDirectory>();
        place(raw.block, raw.offset, raw.bytes);
    }
}

void InodeReader::read_file(Cursor& cursor, bool extended, Node& node) {
    if (extended) {
        auto raw = cursor.take<ExtendedFile>();
        node.start = raw.start;
        node.size = raw.size;
        node.fragment = raw.fragment;
        node.fragment_offset = raw.offset;
        node.xattrs = xattrs_.set(raw.xattr, tree_);
    } else {
        auto raw = cursor.take<BasicFile>();
        node.start = raw.start;
        node.size = raw.size;
        node.fragment = raw.fragment;
        node.fragment_offset = raw.offset;
    }
    read_blocks(cursor, node);
}

void InodeReader::read_blocks(Cursor& cursor, Node& node) {
    const SquashFile& file = metadata_.file();
    uint64_t tail = node.size % super_.block_size;
    uint64_t count = node.size / super_.block_size + (node.fragment == Node::none && tail > 0 ? 1 : 0);
    if (node.size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        count > std::numeric_limits<uint32_t>::max())
        file.damaged("a file has an impossible size");
    if (tail == 0) node.fragment = Node::none;
    if (node.fragment != Node::none) check_fragment(node, tail);
    metadata_.budget().charge(count * sizeof(uint32_t));
    node.first = tree_.blocks.size();
    node.count = static_cast<uint32_t>(count);
    uint64_t stored = 0;
    // In small parts, so that a wrong size meets the end of the table before much memory is taken for it.
    for (uint64_t left = count; left > 0;) {
        uint64_t part = std::min<uint64_t>(left, 4096);
        size_t at = tree_.blocks.size();
        tree_.blocks.resize(at + part);
        cursor.read(sys::bytes_of(std::span(tree_.blocks).subspan(at)));
        left -= part;
        for (; at < tree_.blocks.size(); ++at) {
            uint32_t size = tree_.blocks[at];
            if ((size & ~(block_size_mask | block_uncompressed)) != 0 || (size & block_size_mask) > super_.block_size)
                file.damaged("a block of a file is larger than the block size");
            stored += size & block_size_mask;
        }
    }
    if (stored > 0 && (node.start > file.size || stored > file.size - node.start))
        file.damaged("the blocks of a file are past the end");
}

void InodeReader::check_fragment(const Node& node, uint64_t tail) const {
    const SquashFile& file = metadata_.file();
    if (node.fragment >= tree_.fragments.size()) file.damaged("a file has a tail that is not in the fragment table");
    const Fragment& fragment = tree_.fragments[node.fragment];
    uint32_t stored = fragment.size & block_size_mask;
    if ((fragment.size & ~(block_size_mask | block_uncompressed)) != 0 || stored == 0 || stored > super_.block_size)
        file.damaged("a fragment block is larger than the block size");
    if (fragment.start > file.size || stored > file.size - fragment.start)
        file.damaged("a fragment block is past the end");
    if (node.fragment_offset + tail > super_.block_size)
        file.damaged("the tail of a file is past the end of its fragment block");
}

void InodeReader::read_symlink(Cursor& cursor, bool extended, Node& node) {
    cursor.take<uint32_t>();  // the number of links, counted anew from the directories
    auto size = cursor.take<uint32_t>();
    if (size == 0 || size > target_limit) metadata_.file().damaged("a symlink has a target of a wrong length");
    metadata_.budget().charge(size);
    node.first = tree_.text.size();
    node.size = size;
    tree_.text.resize(node.first + size);
    cursor.read(std::span(tree_.text).subspan(node.first));
    if (tree_.text.find('\0', node.first) != std::string::npos)
        metadata_.file().damaged("the target of a symlink has a NUL");
    if (extended) node.xattrs = xattrs_.set(cursor.take<uint32_t>(), tree_);
}

void InodeReader::read_special(Cursor& cursor, bool extended, bool device, Node& node) {
    cursor.take<uint32_t>();  // the number of links
    if (device) node.rdev = cursor.take<uint32_t>();
    if (extended) node.xattrs = xattrs_.set(cursor.take<uint32_t>(), tree_);
}

}  // namespace berth::squash
