#include "runtime/squash/format/super.hh"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/format/codec.hh"
#include "runtime/squash/format/image_file.hh"

namespace berth::squash {

static_assert(std::endian::native == std::endian::little,
              "squashfs and the index are little endian, and are read without conversion");

namespace {

struct RawSuper {
    uint32_t magic, inodes, made, block_size, fragments;
    uint16_t codec, block_log, flags, ids, major, minor;
    uint64_t root, used, id_table, xattr_table, inode_table, directory_table, fragment_table, export_table;
};
static_assert(sizeof(RawSuper) == 96);

constexpr uint32_t squashfs_magic = 0x73717368;
/// What `mksquashfs -stream` writes first, since it cannot go back: the superblock is the last of the file.
constexpr uint32_t streamed_magic = 0x53515348;
constexpr uint64_t absent = ~0ULL;

/// Where it is something else that people take for an image.
void refuse_other_kind(const SquashFile& file) {
    if (std::string kind = other_kind(file.fd, file.start); !kind.empty())
        throw Error(cat("reading ", printable(file.what, 4096), ": it is no squashfs file but ", kind));
}

void check_identity(const SquashFile& file, const RawSuper& raw) {
    auto refuse = [&](const std::string& why) { throw Error(cat("reading ", printable(file.what, 4096), ": ", why)); };
    if (raw.magic != squashfs_magic) {
        refuse_other_kind(file);
        refuse("it is not a squashfs file");
    }
    if (raw.major != 4 || raw.minor != 0)
        refuse(cat("squashfs version ", raw.major, ".", raw.minor,
                   " is not supported, only 4.0; make it again with a current mksquashfs"));
    auto codec = static_cast<Codec>(raw.codec);
    if (codec == Codec::lzma)
        refuse("its blocks are packed with lzma, which is not supported; make it again with mksquashfs -comp zstd");
    if (!can_unpack(codec))
        refuse(cat("its blocks are packed with the unknown codec ", raw.codec,
                   "; make it again with mksquashfs -comp zstd"));
}

void check_bounds(const SquashFile& file, const RawSuper& raw) {
    bool power_of_two = std::has_single_bit(raw.block_size);
    if (!power_of_two || raw.block_size < 4096 || raw.block_size > (1U << 20) || raw.block_log > 20 ||
        raw.block_size != 1U << raw.block_log)
        file.damaged(cat("the block size ", raw.block_size, " is not allowed"));
    auto check = [&](uint64_t start, const char* table) {
        if (start < sizeof raw || start >= raw.used) file.damaged(cat("its ", table, " table is outside the file"));
    };
    check(raw.inode_table, "inode");
    check(raw.directory_table, "directory");
    check(raw.id_table, "id");
    if (raw.fragments > 0) check(raw.fragment_table, "fragment");
    // Each is there for the end of a file: a list that is longer, of a few kilobytes that are read again and again,
    // would only fill the memory.
    if (raw.fragments > raw.inodes)
        file.damaged(cat("it has ", raw.fragments, " fragments and only ", raw.inodes, " inodes"));
    if (raw.xattr_table != absent) check(raw.xattr_table, "xattr");
}

}  // namespace

void SquashFile::read(std::span<char> out, uint64_t offset) const {
    if (offset > size || out.size() > size - offset) damaged("something points past its end");
    if (sums && sums->read(fd, out, start + offset) != 0)
        throw Error(cat("reading ", printable(what, 4096),
                        ": it was changed since its signatures were verified; start again when nobody writes to it"));
    if (!sums && !sys::pread_exact(fd, out, start + offset, printable(what, 4096)))
        damaged("it is shorter than its superblock says");
}

void SquashFile::damaged(const std::string& problem) const {
    throw Error(cat("reading ", printable(what, 4096), ": ", problem,
                    "; the squashfs file is damaged, fetch or make it again"));
}

void SquashFile::too_large(const std::string& problem) const {
    throw Error(cat("reading ", printable(what, 4096), ": ", problem, "; the squashfs file is refused"));
}

bool has_superblock_last(int fd, uint64_t start) {
    uint32_t magic = 0;
    return ::pread(fd, &magic, sizeof magic, static_cast<off_t>(start)) == sizeof magic && magic == streamed_magic;
}

void put_superblock_first(int fd, const std::string& what) {
    RawSuper raw{};
    auto size = static_cast<uint64_t>(sys::stat_of(fd, what).st_size);
    if (size < 2 * sizeof raw || !has_superblock_last(fd, 0)) return;
    if (!sys::pread_exact(fd, sys::bytes_of(raw), size - sizeof raw, what)) return;
    if (::pwrite(fd, &raw, sizeof raw, 0) != sizeof raw ||
        ::ftruncate(fd, static_cast<off_t>(size - sizeof raw)) != 0)
        throw SysError(cat("writing ", what));
}

Super read_super(SquashFile& file) {
    auto there = static_cast<uint64_t>(sys::stat_of(file.fd, printable(file.what, 4096)).st_size);
    uint64_t space = there - std::min(there, file.start);
    file.size = file.size == 0 ? space : std::min(file.size, space);
    RawSuper raw{};
    if (file.size < sizeof raw) {
        refuse_other_kind(file);
        throw Error(cat("reading ", printable(file.what, 4096), ": it is too short for a squashfs file"));
    }
    file.read(sys::bytes_of(raw), 0);
    if (raw.magic == streamed_magic) {
        file.read(sys::bytes_of(raw), file.size - sizeof raw);
        file.size -= sizeof raw;
    }
    check_identity(file, raw);
    if (raw.used > file.size) file.damaged(cat("it has ", file.size, " bytes but should have ", raw.used));
    check_bounds(file, raw);
    file.size = raw.used;
    return Super{.inodes = raw.inodes,
                 .block_size = raw.block_size,
                 .fragments = raw.fragments,
                 .ids = raw.ids,
                 .codec = static_cast<Codec>(raw.codec),
                 .root = raw.root,
                 .id_table = raw.id_table,
                 .xattr_table = raw.xattr_table == absent ? 0 : raw.xattr_table,
                 .inode_table = raw.inode_table,
                 .directory_table = raw.directory_table,
                 .fragment_table = raw.fragment_table};
}

}  // namespace berth::squash
