// The extended attributes of a squashfs file.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/squash/format/metadata.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

/// Reads sets of attributes when an inode first refers to them. Only user.* is kept: the rest would give an image a say
/// about the host.
class XattrTable {
  public:
    /// `table` is the superblock's position; 0 for a file without attributes.
    XattrTable(Metadata& metadata, uint64_t table);

    /// The position in `tree.xattr_sets` of the set that an inode calls `id`; 0 when nothing of it is kept.
    uint32_t set(uint32_t id, TreeData& tree);

  private:
    struct Record {
        uint64_t reference;
        uint32_t count;
        uint32_t bytes;
    };
    XattrSet read_set(const Record& record);
    std::string read_value(Cursor& cursor, bool out_of_line);
    std::string read_bytes(Cursor& cursor, uint32_t size);

    Metadata& metadata_;
    uint64_t values_ = 0;  ///< where the blocks with names and values start
    std::vector<Record> records_;
    /// for each record: position of the set in the tree, or Node::none before the first use
    std::vector<uint32_t> sets_;
};

}  // namespace berth::squash
