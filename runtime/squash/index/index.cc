#include "runtime/squash/index/index.hh"

#include <cinttypes>
#include <cstdio>
#include <sys/stat.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/squash/index/index_bytes.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

using format::EntryRecord;
using format::FragmentRecord;

namespace {

/// Directories have no size of their own in a merged tree; this is what most file systems show.
constexpr uint64_t directory_size = 4096;
/// Blocks that are looked at for the attributes of one file: those of a terabyte, the most that a layer has, in blocks
/// of 128 KiB. What is larger counts as full.
constexpr uint64_t most_blocks = 1 << 23;
/// Files below are not worth a look at another page of the index for the attributes alone.
constexpr uint64_t least_size = 1 << 20;

}  // namespace

Index::Index(std::unique_ptr<IndexBytes> bytes) : bytes_(std::move(bytes)) {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

Index Index::open(int fd, const std::string& what, const std::string& remedy) {
    return Index(std::make_unique<IndexBytes>(fd, what, remedy));
}

Index Index::from_bytes(std::string bytes) {
    return Index(std::make_unique<IndexBytes>(std::move(bytes)));
}

int Index::descriptor() const {
    return bytes_->descriptor();
}

void Index::shrink() const { bytes_->forget_pages(); }

std::string Index::id() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, bytes_->header().header_hash);
    return text;
}

uint32_t Index::inode_count() const {
    return bytes_->header().inode_count;
}

bool Index::has_xattrs() const {
    return bytes_->header().flags & format::flag_xattrs;
}

const std::vector<LayerInfo>& Index::layers() const {
    return bytes_->layers();
}

plan::ImageConfig Index::config() const {
    return bytes_->config();
}

std::optional<InodeView> Index::inode(uint32_t number) const {
    auto found = bytes_->inode_record(number);
    if (!found) return std::nullopt;
    bool device = S_ISCHR(found->mode) || S_ISBLK(found->mode);
    return InodeView{.mode = found->mode,
                     .nlink = found->nlink,
                     .rdev = device ? found->a : 0,
                     .mtime = found->mtime,
                     .size = S_ISDIR(found->mode) ? directory_size : found->size,
                     .uid = found->uid,
                     .gid = found->gid};
}

uint32_t Index::lookup(uint32_t parent, std::string_view name) const {
    auto directory = bytes_->directory_record(parent);
    if (!directory) return 0;
    uint64_t low = 0;
    uint64_t high = directory->c;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        auto entry = bytes_->record<EntryRecord>(format::entries, directory->b + middle);
        if (!entry) return 0;
        int order = bytes_->name_at(entry->name).compare(name);
        if (order == 0) return entry->inode <= bytes_->header().inode_count ? entry->inode : 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

uint32_t Index::entry_count(uint32_t directory) const {
    auto found = bytes_->directory_record(directory);
    uint64_t all = bytes_->section(format::entries).size() / sizeof(EntryRecord);
    if (!found || found->b > all || found->c > all - found->b) return 0;
    return static_cast<uint32_t>(found->c);
}

std::optional<Entry> Index::entry(uint32_t directory, uint32_t position) const {
    auto found = bytes_->directory_record(directory);
    if (!found || position >= found->c) return std::nullopt;
    auto entry = bytes_->record<EntryRecord>(format::entries, found->b + position);
    if (!entry) return std::nullopt;
    auto inode = bytes_->inode_record(entry->inode);
    if (!inode) return std::nullopt;
    return Entry{bytes_->name_at(entry->name), entry->inode, inode->mode};
}

uint32_t Index::parent(uint32_t directory) const {
    auto found = bytes_->directory_record(directory);
    return found && found->a <= bytes_->header().inode_count ? found->a : 0;
}

std::optional<std::string_view> Index::symlink_target(uint32_t number) const {
    auto found = bytes_->inode_record(number);
    std::string_view names = bytes_->section(format::names);
    if (!found || !S_ISLNK(found->mode) || found->b > names.size() || found->size > names.size() - found->b)
        return std::nullopt;
    return bytes_->checked(names.substr(found->b, found->size));
}

namespace {

/// The part of a file's blocks that is needed to read `size` bytes at `offset`; throws Error when it is damaged.
void check_blocks(const IndexBytes& index, const FileData& file, uint64_t block_size, uint64_t offset, uint64_t size) {
    offset = std::min(offset, file.size);
    uint64_t end = offset + std::min(size, file.size - offset);
    uint64_t first = offset / block_size;
    uint64_t last = std::min<uint64_t>((end + block_size - 1) / block_size, file.block_count);
    if (first >= last) return;
    // The place of a block is found by a sum and the blocks after it, and by those before the first sum.
    uint64_t from = file.sums && first >= file.first_sum ? first - (first - file.first_sum) % format::sum_interval : 0;
    auto check_some = [&](const auto* array, uint64_t start, uint64_t after) {
        index.check(reinterpret_cast<const char*>(array + start), (after - start) * sizeof *array);
    };
    check_some(file.blocks, from, last);
    if (file.hashes) check_some(file.hashes, first, last);
    if (from == 0) return;
    check_some(file.blocks, 0, file.first_sum);
    check_some(file.sums, 0, 1);
    check_some(file.sums, (from - file.first_sum) / format::sum_interval,
               (from - file.first_sum) / format::sum_interval + 1);
}

/// Adds where its blocks are to a file; false when that is outside the section.
bool find_blocks(const IndexBytes& index, const format::InodeRecord& record, uint64_t count, FileData& file) {
    auto array = [&](format::Section number) { return index.section(number).data(); };
    uint64_t all = index.section(format::blocks).size() / sizeof(uint32_t);
    if (record.c > all || count > all - record.c) return false;
    file.block_count = static_cast<uint32_t>(count);
    file.blocks = reinterpret_cast<const uint32_t*>(array(format::blocks)) + record.c;
    if (index.section(format::hashes).size() / sizeof(uint64_t) == all)
        file.hashes = reinterpret_cast<const uint64_t*>(array(format::hashes)) + record.c;
    uint64_t first_sum = (record.c + format::sum_interval - 1) / format::sum_interval;
    uint64_t first_block = first_sum * format::sum_interval - record.c;
    if (first_block < count &&
        (record.c + count - 1) / format::sum_interval < index.section(format::sums).size() / sizeof(uint64_t)) {
        file.sums = reinterpret_cast<const uint64_t*>(array(format::sums)) + first_sum;
        file.first_sum = static_cast<uint32_t>(first_block);
    }
    return true;
}

}  // namespace

std::optional<FileData> Index::file(uint32_t number, uint64_t offset, uint64_t size) const {
    auto found = bytes_->inode_record(number);
    if (!found || !S_ISREG(found->mode) || found->a >= bytes_->layers().size()) return std::nullopt;
    FileData file{.layer = found->a, .size = found->size, .start = found->b};
    uint64_t block_size = bytes_->layers()[found->a].block_size;
    file.has_fragment = found->d != format::no_fragment;
    uint64_t count = found->size / block_size + (!file.has_fragment && found->size % block_size != 0 ? 1 : 0);
    if (!find_blocks(*bytes_, *found, count, file)) return std::nullopt;
    check_blocks(*bytes_, file, block_size, offset, size);
    if (!file.has_fragment) return file;
    auto fragment = bytes_->record<FragmentRecord>(format::fragments, found->d);
    if (!fragment) return std::nullopt;
    file.fragment_start = fragment->start;
    file.fragment_size = fragment->size;
    file.fragment_hash = fragment->hash;
    file.fragment_offset = found->e;
    return file;
}

namespace {

/// A block of size 0 is one of zeros, of which no bytes are stored.
bool is_hole(const FileData& file, uint64_t block) { return (file.blocks[block] & block_size_mask) == 0; }

}  // namespace

std::optional<uint64_t> Index::seek(uint32_t number, uint64_t offset, SeekFor wanted) const {
    auto file = this->file(number, offset);
    if (!file || offset >= file->size) return std::nullopt;
    bool hole = wanted == SeekFor::hole;
    uint64_t block_size = bytes_->layers()[file->layer].block_size;
    for (uint64_t block = offset / block_size; block < file->block_count; ++block)
        if (is_hole(*file, block) == hole) return std::max(offset, block * block_size);
    if (hole) return file->size;
    // What is behind the blocks is the tail.
    uint64_t tail = uint64_t{file->block_count} * block_size;
    if (tail >= file->size) return std::nullopt;
    return std::max(offset, tail);
}

uint64_t Index::hole_bytes(uint32_t number) const try {
    auto found = bytes_->inode_record(number);
    if (!found || !S_ISREG(found->mode) || found->size < least_size) return 0;
    auto file = this->file(number);
    if (!file || file->block_count > most_blocks) return 0;
    uint64_t block_size = bytes_->layers()[file->layer].block_size, bytes = 0;
    for (uint64_t block = 0; block < file->block_count; ++block)
        if (is_hole(*file, block)) bytes += std::min(block_size, file->size - block * block_size);
    return bytes;
} catch (const Error&) {
    // Whoever reads it finds out that the index is damaged.
    return 0;
}

namespace {

template <typename Visit>
void each_xattr(const IndexBytes& index, uint32_t number, Visit visit) {
    auto found = index.inode_record(number);
    std::string_view rest = index.section(format::xattrs);
    uint32_t count = 0;
    if (!found || found->xattrs == 0 || found->xattrs - 1 > rest.size()) return;
    rest.remove_prefix(found->xattrs - 1);
    if (rest.size() < sizeof count) return;
    index.check(rest.data(), sizeof count);
    std::memcpy(&count, rest.data(), sizeof count);
    rest.remove_prefix(sizeof count);
    for (; count > 0; --count) {
        uint16_t name = 0;
        uint32_t value = 0;
        if (rest.size() < sizeof name + sizeof value) return;
        index.check(rest.data(), sizeof name + sizeof value);
        std::memcpy(&name, rest.data(), sizeof name);
        std::memcpy(&value, rest.data() + sizeof name, sizeof value);
        rest.remove_prefix(sizeof name + sizeof value);
        if (rest.size() < uint64_t{name} + value) return;
        if (!visit(index.checked(rest.substr(0, name)), index.checked(rest.substr(name, value)))) return;
        rest.remove_prefix(uint64_t{name} + value);
    }
}

}  // namespace

std::optional<std::string_view> Index::xattr(uint32_t number, std::string_view name) const {
    std::optional<std::string_view> out;
    each_xattr(*bytes_, number, [&](std::string_view key, std::string_view value) {
        if (key == name) out = value;
        return key != name;
    });
    return out;
}

bool shows_xattr(std::string_view name) {
    return name.starts_with("user.") && !name.starts_with("user.overlay.");
}

std::vector<std::string_view> Index::xattr_names(uint32_t number) const {
    std::vector<std::string_view> out;
    each_xattr(*bytes_, number, [&](std::string_view key, std::string_view) {
        out.push_back(key);
        return true;
    });
    return out;
}

}  // namespace berth::squash
