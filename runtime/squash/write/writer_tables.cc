#include "runtime/squash/write/writer_tables.hh"

#include <sqfs/block.h>
#include <sqfs/compressor.h>
#include <sqfs/dir_writer.h>
#include <sqfs/inode.h>
#include <sqfs/meta_writer.h>
#include <sqfs/table.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

namespace berth::squash {

namespace {

constexpr const char* doing = "writing the metadata of a squashfs file";

struct SqfsFree {
    void operator()(void* memory) const { ::free(memory); }
};
using InodePtr = std::unique_ptr<sqfs_inode_generic_t, SqfsFree>;

/// The table of user and group ids. Our own, because libsquashfs searches its table one by one and lets it grow to
/// 65,536 entries, which the 16-bit count in the superblock cannot say.
///
/// An image may hold more ids than fit. Berth serves every file as the caller's anyway, so such a layer is worth
/// keeping: the ids past the limit become 65534 (nobody) and never 0, so that no setuid file turns into root's where
/// another tool mounts the result.
class IdTable {
  public:
    uint16_t index(uint32_t id) {
        if (auto found = indexes_.find(id); found != indexes_.end()) return found->second;
        if (ids_.size() >= limit - 1 && id != nobody) return index(nobody);
        ids_.push_back(id);
        return indexes_[id] = static_cast<uint16_t>(ids_.size() - 1);
    }

    void write(const TableOutput& output) const {
        output.super.id_count = static_cast<uint16_t>(ids_.size());
        sqfs_u64 start = 0;
        output.file.check(
            sqfs_write_table(&output.file, output.compressor, ids_.data(), ids_.size() * sizeof(uint32_t), &start),
            doing);
        output.super.id_table_start = start;
    }

  private:
    static constexpr size_t limit = 65535;
    static constexpr uint32_t nobody = 65534;
    std::vector<uint32_t> ids_;  // little endian on disk; berth runs on little endian machines only, as do its tables
    std::unordered_map<uint32_t, uint16_t> indexes_;
};

/// All directories, each before those below it. Siblings get consecutive inode numbers, which keeps directory tables
/// small (they store differences).
struct Numbering {
    struct Directory {
        NewInode* inode;
        uint32_t parent;
        uint32_t subdirectories = 0;
    };
    std::vector<Directory> directories;
    uint32_t count = 1;
};

Numbering number_inodes(EntryTree& tree) {
    Numbering out;
    tree.root().number = 1;
    out.directories.push_back({&tree.root(), 0});
    for (size_t i = 0; i < out.directories.size(); ++i) {
        NewInode& directory = *out.directories[i].inode;
        for (auto& [name, inode] : *directory.children) {
            if (inode->links++ == 0) inode->number = ++out.count;
            if (!inode->is_directory()) continue;
            ++out.directories[i].subdirectories;
            out.directories.push_back({inode, directory.number});
        }
    }
    // the root has no parent: mksquashfs writes a number that does not exist
    out.directories.front().parent = out.count + 1;
    return out;
}

class TableWriter {
  public:
    explicit TableWriter(const TableOutput& output) : out_(output) {
        inodes_.reset(sqfs_meta_writer_create(&out_.file, out_.compressor, 0));
        listings_.reset(sqfs_meta_writer_create(&out_.file, out_.compressor, SQFS_META_WRITER_KEEP_IN_MEMORY));
        if (inodes_ && listings_) entries_.reset(sqfs_dir_writer_create(listings_.get(), 0));
        if (!entries_) throw std::bad_alloc();
    }

    void write(EntryTree& tree) {
        Numbering numbering = number_inodes(tree);
        out_.super.inode_count = numbering.count;
        out_.super.inode_table_start = out_.file.size();
        // A listing refers to inodes already written: the deepest directories come first, each after what it holds.
        for (size_t i = numbering.directories.size(); i-- > 0;) write_directory(numbering.directories[i]);
        out_.super.root_inode_ref = tree.root().reference;
        check(sqfs_meta_writer_flush(inodes_.get()));
        check(sqfs_meta_writer_flush(listings_.get()));
        out_.super.directory_table_start = out_.file.size();
        check(sqfs_meta_write_write_to_file(listings_.get()));
        check(sqfs_frag_table_write(out_.fragments, &out_.file, &out_.super, out_.compressor));
        ids_.write(out_);
        check(sqfs_xattr_writer_flush(out_.xattrs, &out_.file, &out_.super, out_.compressor));
    }

  private:
    void check(int code) const { out_.file.check(code, doing); }

    void write_directory(const Numbering::Directory& directory) {
        check(sqfs_dir_writer_begin(entries_.get(), 0));
        for (auto& [name, inode] : *directory.inode->children) {
            if (inode->reference == unwritten) write_leaf(*inode);
            check(sqfs_dir_writer_add_entry(entries_.get(), name.c_str(), inode->number, inode->reference,
                                            static_cast<sqfs_u16>(inode->mode)));
        }
        check(sqfs_dir_writer_end(entries_.get()));
        InodePtr record(sqfs_dir_writer_create_inode(entries_.get(), 0, directory.inode->xattr, directory.parent));
        if (!record) throw std::bad_alloc();
        // The kernel counts "." and ".." as three bytes, which libsquashfs before 1.1 leaves out.
        size_t size = sqfs_dir_writer_get_size(entries_.get()) + 3;
        if (record->base.type == SQFS_INODE_DIR && size > UINT16_MAX) check(sqfs_inode_make_extended(record.get()));
        // libsquashfs counts every entry as a link; the kernel and find(1) expect 2 and one for each directory inside.
        uint32_t links = 2 + directory.subdirectories;
        if (record->base.type == SQFS_INODE_EXT_DIR) {
            record->data.dir_ext.size = static_cast<uint32_t>(size);
            record->data.dir_ext.nlink = links;
        } else {
            record->data.dir.size = static_cast<uint16_t>(size);
            record->data.dir.nlink = links;
        }
        write_inode(*directory.inode, *record);
    }

    void write_leaf(NewInode& inode) {
        if (S_ISREG(inode.mode)) return write_file(inode);
        InodePtr record = S_ISLNK(inode.mode) ? symlink_record(inode) : special_record(inode);
        if (inode.xattr != no_xattrs) check(sqfs_inode_set_xattr_index(record.get(), inode.xattr));
        write_inode(inode, *record);
    }

    void write_file(NewInode& inode) {
        InodePtr record = file_record(*inode.file);
        if (inode.links > 1) check(sqfs_inode_make_extended(record.get()));  // the basic form means one link
        if (record->base.type == SQFS_INODE_EXT_FILE) record->data.file_ext.nlink = inode.links;
        if (inode.xattr != no_xattrs) check(sqfs_inode_set_xattr_index(record.get(), inode.xattr));
        write_inode(inode, *record);
        inode.file.reset();  // the block lists of large layers are worth freeing early
    }

    InodePtr file_record(const StoredFile& file) const {
        size_t payload = file.blocks.size() * sizeof(uint32_t);
        InodePtr record = new_record(payload);
        record->base.type = SQFS_INODE_FILE;
        record->payload_bytes_available = record->payload_bytes_used = static_cast<sqfs_u32>(payload);
        if (payload > 0) std::memcpy(record->extra, file.blocks.data(), payload);
        check(sqfs_inode_set_file_size(record.get(), file.size));
        check(sqfs_inode_set_file_block_start(record.get(), file.start));
        check(sqfs_inode_set_frag_location(record.get(), file.fragment, file.fragment_offset));
        if (file.holes > 0) {
            check(sqfs_inode_make_extended(record.get()));
            record->data.file_ext.sparse = file.holes;
        }
        return record;
    }

    static InodePtr new_record(size_t payload) {
        auto* memory = std::calloc(1, sizeof(sqfs_inode_generic_t) + payload);
        if (memory == nullptr) throw std::bad_alloc();
        return InodePtr(static_cast<sqfs_inode_generic_t*>(memory));
    }

    static InodePtr symlink_record(const NewInode& inode) {
        InodePtr record = new_record(inode.target.size());
        record->base.type = SQFS_INODE_SLINK;
        record->data.slink.nlink = inode.links;
        record->data.slink.target_size = static_cast<sqfs_u32>(inode.target.size());
        record->payload_bytes_available = record->payload_bytes_used = record->data.slink.target_size;
        std::memcpy(record->extra, inode.target.data(), inode.target.size());
        return record;
    }

    static InodePtr special_record(const NewInode& inode) {
        InodePtr record = new_record(0);
        record->base.type = S_ISSOCK(inode.mode) ? SQFS_INODE_SOCKET : SQFS_INODE_FIFO;
        record->data.ipc.nlink = inode.links;
        return record;
    }

    void write_inode(NewInode& inode, sqfs_inode_generic_t& record) {
        record.base.mode = static_cast<sqfs_u16>(inode.mode);
        record.base.uid_idx = ids_.index(inode.uid);
        record.base.gid_idx = ids_.index(inode.gid);
        record.base.mod_time = inode.mtime;
        record.base.inode_number = inode.number;
        sqfs_u64 block = 0;
        sqfs_u32 offset = 0;
        sqfs_meta_writer_get_position(inodes_.get(), &block, &offset);
        inode.reference = block << 16 | offset;
        check(sqfs_meta_writer_write_inode(inodes_.get(), &record));
    }

    TableOutput out_;
    SqfsPtr<sqfs_meta_writer_t> inodes_, listings_;
    SqfsPtr<sqfs_dir_writer_t> entries_;
    IdTable ids_;
};

}  // namespace

void write_tables(EntryTree& tree, const TableOutput& output) {
    TableWriter(output).write(tree);
}

}  // namespace berth::squash
