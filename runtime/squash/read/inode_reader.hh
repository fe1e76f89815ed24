// Decodes squashfs inodes into nodes.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/squash/format/metadata.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/xattrs.hh"

namespace berth::squash {

/// Where a directory's listing is: taken from its inode, used once.
struct Listing {
    uint64_t reference = 0;  ///< from the start of the directory table
    uint32_t bytes = 0;
};

/// Reads inodes one by one; block lists, targets and xattrs go into the tree's arrays.
class InodeReader {
  public:
    InodeReader(Metadata& metadata, const Super& super, uint32_t layer, TreeData& tree);

    /// The inode at `reference`, its sizes and places checked against the file. For a directory `listing` is set and
    /// `first` and `count` are left 0. Throws Error for anything out of bounds.
    Node read(uint64_t reference, Listing& listing);

  private:
    struct Header;
    void read_directory(Cursor& cursor, bool extended, Node& node, Listing& listing);
    void read_file(Cursor& cursor, bool extended, Node& node);
    void read_blocks(Cursor& cursor, Node& node);
    void check_fragment(const Node& node, uint64_t tail) const;
    void read_symlink(Cursor& cursor, bool extended, Node& node);
    void read_special(Cursor& cursor, bool extended, bool device, Node& node);
    uint32_t id(uint16_t position) const;

    Metadata& metadata_;
    const Super& super_;
    uint32_t layer_;
    TreeData& tree_;
    std::vector<uint32_t> ids_;
    XattrTable xattrs_;
};

}  // namespace berth::squash
