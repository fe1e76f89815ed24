// Where a file has no stored bytes: a block of size 0 is one of zeros.
#include <sys/stat.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/index/index_bytes.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

/// Blocks that are looked at for the attributes of one file; what is larger counts as full.
constexpr uint64_t most_blocks = 1 << 20;
/// Files below are not worth a look at another page of the index.
constexpr uint64_t least_size = 1 << 20;

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

}  // namespace berth::squash
