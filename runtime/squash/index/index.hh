// The merged tree of an image as one immutable file whose records are used as they are, never parsed: what the FUSE
// server and the runtime read.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/image_config.hh"
#include "runtime/squash/index/index_types.hh"

namespace berth::squash {

class IndexBytes;

/// Read-only and safe to share between threads. Every access is bounded: whatever the bytes, it gives Error or
/// "nothing", never a crash. What is read of a file is what was written to it: an access that meets a page with another
/// checksum throws Error.
class Index {
  public:
    /// Reads the start of the file; the rest is read when it is first needed, so that a file that cannot be read any
    /// more (a bad sector, a file server that has gone) is an Error of that access. Keeps a descriptor of its own, see
    /// file(). Throws Error when its magic, version, header checksum, section bounds, or the pages with the layers and
    /// the config are wrong. `remedy` ends the message about a page that is damaged.
    static Index open(int fd, const std::string& what,
                      const std::string& remedy = "run berth verify, which makes it anew");
    /// Takes the bytes of build_index(); throws Error as open() does. The checksums of the pages are not looked at: the
    /// bytes are this process's own.
    static Index from_bytes(std::string bytes);

    Index(Index&&) noexcept;
    Index& operator=(Index&&) noexcept;
    ~Index();

    /// The descriptor that the index is read by, for a process or thread that closes all others; -1: none is needed.
    int descriptor() const;

    /// Gives the memory of what was read back; it is read again, and checked again, when it is needed. Nobody may use
    /// the index, nor what it has returned, meanwhile.
    void shrink() const;

    /// 16 hexadecimal digits that tell it from other indexes, of other images: of the hash of its header, which has
    /// those of all pages.
    std::string id() const;
    /// Inodes have the numbers 1, the root, to this one.
    uint32_t inode_count() const;
    bool has_xattrs() const;
    const std::vector<LayerInfo>& layers() const;
    plan::ImageConfig config() const;

    /// Nothing for a number that there is not; Error when the index is damaged there, as for all below.
    std::optional<InodeView> inode(uint32_t number) const;
    /// The inode called `name` in directory `parent`; 0 when there is none.
    uint32_t lookup(uint32_t parent, std::string_view name) const;
    /// Entries of a directory, sorted by name bytes; 0 for what is no directory.
    uint32_t entry_count(uint32_t directory) const;
    /// The one at `position`, from 0; nothing past the end.
    std::optional<Entry> entry(uint32_t directory, uint32_t position) const;
    /// The directory that holds `directory` (the root's is the root).
    uint32_t parent(uint32_t directory) const;
    /// Byte-exact; nothing for what is no symlink. It lives as long as the index, or until shrink().
    std::optional<std::string_view> symlink_target(uint32_t number) const;
    /// With what is needed to read `size` bytes at `offset` (less would do no harm, but may be of damaged pages).
    std::optional<FileData> file(uint32_t number, uint64_t offset = 0, uint64_t size = UINT64_MAX) const;
    /// As lseek(2) with SEEK_DATA and SEEK_HOLE: where data, or a hole, begins at or after `offset`, the end of the
    /// file being a hole; nothing where no more of it is. Throws Error when the index is damaged there.
    std::optional<uint64_t> seek(uint32_t number, uint64_t offset, SeekFor wanted) const;
    /// How much of a file's size is in holes; of small files, which have none worth mention, 0.
    uint64_t hole_bytes(uint32_t number) const;
    /// Value of an xattr, or nothing; names with their full prefix ("user.x").
    std::optional<std::string_view> xattr(uint32_t number, std::string_view name) const;
    std::vector<std::string_view> xattr_names(uint32_t number) const;

  private:
    explicit Index(std::unique_ptr<IndexBytes> bytes);
    std::unique_ptr<IndexBytes> bytes_;
};

/// True for an xattr name that a container sees of its image: user.*, save what the overlay would take for its own
/// marks.
bool shows_xattr(std::string_view name);

}  // namespace berth::squash
