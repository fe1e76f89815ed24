// The tree of entries that a LayerWriter collects: names in memory, file data already on its way to the disk.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/squash/write/layer_sink.hh"
#include "runtime/squash/write/stored_file.hh"

namespace berth::squash {

inline constexpr uint32_t no_xattrs = 0xFFFFFFFF;
inline constexpr uint64_t unwritten = UINT64_MAX;

/// An inode to be; hard links are several names for one.
struct NewInode {
    bool is_directory() const { return children != nullptr; }

    bool implied = false;  ///< a directory that only the path of an entry below it made

    uint32_t mode = 0;  ///< with the type bits
    uint32_t uid = 0, gid = 0;
    uint32_t mtime = 0;
    uint32_t xattr = no_xattrs;                                               ///< index of its set in the xattr table
    /// of a regular file: still changed while its blocks are on their way
    std::unique_ptr<StoredFile> file;
    std::string target;                                                       ///< of a symlink
    /// of a directory, in the byte order that the format wants
    std::unique_ptr<std::map<std::string, NewInode*, std::less<>>> children;

    uint32_t links = 0;  ///< names that refer to it, filled in when numbered
    uint32_t number = 0;
    uint64_t reference = unwritten;  ///< where it stands in the inode table, once written
};

/// All names. Paths are relative and normalised ("" is the root); an empty, "." or ".." component throws
/// std::logic_error.
class EntryTree {
  public:
    EntryTree();

    NewInode& root() const { return *root_; }
    /// A new inode without a name; it lives as long as the tree, whether or not it keeps a name, since its blocks may
    /// still be on their way.
    NewInode& make(uint32_t mode);
    /// The inode called `path`, or null.
    NewInode* find(std::string_view path) const;
    /// Gives `inode` the name `path`, in place of what was there with everything below it. Parents that are missing, or
    /// no directories, are made.
    void put(std::string_view path, NewInode& inode);
    /// Takes the name `path` away, with everything below it; the root stays.
    void remove(std::string_view path);
    /// `path` with the symlinks among its parents followed, as long as they lead to directories of this tree; see
    /// LayerWriter::resolved.
    std::string resolved(std::string_view path) const;
    /// Gives `inode` the new name `name` in a directory of the tree.
    void put_in(NewInode& directory, std::string_view name, NewInode& inode);
    /// All implied directories.
    std::vector<NewInode*> implied_directories() const;
    /// Number of names, the root's included.
    uint64_t size() const { return size_; }
    /// About the memory that inodes and names take, in bytes, those included that have been replaced.
    uint64_t bytes() const { return bytes_; }

  private:
    NewInode& directory_at(NewInode& parent, std::string_view name);
    void count_name(std::string_view name);
    void forget(const NewInode& inode);

    std::deque<NewInode> inodes_;
    NewInode* root_;
    uint64_t size_ = 1;
    uint64_t bytes_ = 0;
};

// What a LayerSink does to its tree, as its functions say.

/// `xattr` is the index of the attributes' set.
void set_attributes(NewInode& inode, const Attributes& attributes, uint32_t xattr);
/// Puts a new inode of the type in place.
NewInode& add_entry(EntryTree& tree, std::string_view path, uint32_t type);
/// Gives the inode at `existing` the name `path` as well. Throws Error when there is none, or where one is a directory.
void link_entry(EntryTree& tree, std::string_view path, std::string_view existing);
/// The type bits of a FIFO or socket; throws std::logic_error for another type.
uint32_t checked_special(uint32_t type);

}  // namespace berth::squash
