// What takes the entries of a layer one by one: the writer of a squashfs file, or a check of one.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace berth::squash {

/// Attributes of an entry. `mode` holds permission bits only (07777). Times are seconds since 1970 (clamped to 32 bits
/// unsigned). Only user.* xattrs are stored; the caller drops all others.
struct Attributes {
    uint32_t mode = 0755;
    uint32_t uid = 0;
    uint32_t gid = 0;
    int64_t mtime = 0;
    std::map<std::string, std::string> xattrs = {};
};

/// Paths are relative and normalised by the caller ("usr/bin/ls"; "" is the root): an empty, "." or ".." component is a
/// logic error. Missing parents are made with default attributes. An entry replaces an earlier one of the same path
/// (last wins), but a directory entry over a directory only replaces its attributes. A child under a non-directory
/// turns that parent into a directory. Names `.wh.NAME` and `.wh..wh..opq` are like any other: they are data of the
/// later merge (tree.hh).
class LayerSink {
  public:
    virtual ~LayerSink() = default;

    /// `path` with the symlinks among its parent components followed inside the tree so far, as the kernel would in a
    /// chroot, wherever they lead to a directory that exists; a symlink that leads elsewhere stays in the path (and
    /// gives way to a directory when a child is added).
    virtual std::string resolved(std::string_view path) const = 0;

    virtual void add_directory(std::string_view path, const Attributes& attributes) = 0;
    virtual void add_symlink(std::string_view path, const Attributes& attributes, std::string_view target) = 0;
    /// `type` is S_IFIFO or S_IFSOCK.
    virtual void add_special(std::string_view path, const Attributes& attributes, uint32_t type) = 0;
    /// Throws Error when `existing` is missing or a directory. A link to a symlink shares the symlink.
    virtual void add_hardlink(std::string_view path, std::string_view existing) = 0;

    /// A regular file: begin, then exactly its bytes by append / append_zeros (sparse), then end. `size` is how many
    /// are to come, 0 where that is not known.
    virtual void begin_file(std::string_view path, const Attributes& attributes, uint64_t size = 0) = 0;
    virtual void append(std::string_view data) = 0;
    virtual void append_zeros(uint64_t size) = 0;
    virtual void end_file() = 0;

    /// Takes the name away again, with everything below it; nothing happens when there is none.
    virtual void remove(std::string_view path) = 0;

    /// Puts an empty file `marker` into every directory, the root included, that no entry made but the path of one
    /// below it: the merge must not take the attributes of such a directory for the layer's word.
    virtual void mark_implied_directories(std::string_view marker) = 0;

    /// About the memory that the tree takes, in bytes: directories that only a path implies and what has been replaced
    /// are in it.
    virtual uint64_t memory() const = 0;
};

}  // namespace berth::squash
