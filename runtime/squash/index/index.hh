// The merged tree of an image as one immutable file whose records are used as they are, never parsed: what the FUSE
// server and the runtime read.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/plan/image_config.hh"

namespace berth::squash {

/// How the data blocks of a layer file are compressed; the numbers are those of the squashfs superblock.
enum class Codec : uint16_t { none = 0, gzip = 1, lzma = 2, lzo = 3, xz = 4, lz4 = 5, zstd = 6 };

/// A layer file that the index points into: position in `layers()` is the layer number of a file.
struct LayerInfo {
    /// file name in the store (layers/<name>), or empty for a foreign single file given by the caller
    std::string name;
    Codec codec = Codec::zstd;
    uint32_t block_size = 0;  ///< bytes, a power of two from 4 KiB to 1 MiB
};

/// An inode as served. Numbers start at 1 (the root), so they are FUSE inode numbers as they stand.
struct InodeView {
    uint32_t mode = 0;  ///< type and permission bits
    uint32_t nlink = 0;
    uint32_t rdev = 0;
    int64_t mtime = 0;
    uint64_t size = 0;          ///< bytes of a file, length of a symlink's target
    uint32_t uid = 0, gid = 0;  ///< as recorded in the image; the server shows the caller's instead
};

struct Entry {
    std::string_view name;
    uint32_t inode = 0;
    uint32_t mode = 0;
};

enum class SeekFor { data, hole };

/// Where the bytes of a regular file are.
struct FileData {
    uint32_t layer = 0;
    uint64_t size = 0;
    uint64_t start = 0;                ///< offset of the first block in the layer file
    const uint32_t* blocks = nullptr;  ///< on-disk size of each block; bit 24 set: stored uncompressed; 0: a hole
    uint32_t block_count = 0;
    uint32_t first_sum = 0;          ///< the block that sums[0] is at
    /// running sums of the on-disk sizes, one every 64 blocks from first_sum on; null: add up `blocks`
    const uint64_t* sums = nullptr;
    /// of the stored bytes of each block, as format::bulk_hash in index_format.hh has it, 0: not known; null: none is
    const uint64_t* hashes = nullptr;
    bool has_fragment = false;
    uint64_t fragment_start = 0;   ///< offset of the fragment block in the layer file
    uint32_t fragment_size = 0;    ///< on-disk size of it, bit 24 as above
    uint32_t fragment_offset = 0;  ///< where the tail starts in the unpacked fragment block
    uint64_t fragment_hash = 0;    ///< of the fragment's stored bytes; 0: not known
};

/// Read-only and safe to share between threads. Every access is bounded: whatever the bytes, it gives Error or
/// "nothing", never a crash. What is read of a file is what was written to it: an access that meets a page with another
/// checksum throws Error.
class Index {
  public:
    /// Reads the start of the file; the rest is read when it is first needed, so that a file that cannot be read any
    /// more (a bad sector, a file server that has gone) is an Error of that access. Keeps a descriptor of its own, see
    /// file(). Throws Error when its magic, version, header checksum, section bounds, or the pages with the layers and
    /// the config are wrong.
    static Index open(int fd, const std::string& what);
    /// Takes the bytes of build_index(); throws Error as open() does. The checksums of the pages are not looked at: the
    /// bytes are this process's own.
    static Index from_bytes(std::string bytes);

    Index(Index&&) noexcept;
    Index& operator=(Index&&) noexcept;
    ~Index();

    /// The descriptor that the index is read by, for a process or thread that closes all others; -1: none is needed.
    int descriptor() const;

    uint32_t inode_count() const;
    bool has_xattrs() const;
    const std::vector<LayerInfo>& layers() const;
    plan::ImageConfig config() const;

    std::optional<InodeView> inode(uint32_t number) const;
    /// The inode called `name` in directory `parent`; 0 when there is none.
    uint32_t lookup(uint32_t parent, std::string_view name) const;
    /// Entries of a directory, sorted by name bytes; 0 for what is no directory.
    uint32_t entry_count(uint32_t directory) const;
    std::optional<Entry> entry(uint32_t directory, uint32_t position) const;
    /// The directory that holds `directory` (the root's is the root).
    uint32_t parent(uint32_t directory) const;
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
    struct Impl;
    explicit Index(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// True for an xattr name that a container sees of its image: user.*, save what the overlay would take for its own
/// marks.
bool shows_xattr(std::string_view name);

}  // namespace berth::squash
