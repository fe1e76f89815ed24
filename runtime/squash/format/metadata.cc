#include "runtime/squash/format/metadata.hh"

#include <algorithm>
#include <cstring>

#include "runtime/base/text.hh"
#include "runtime/squash/format/codec.hh"

namespace berth::squash {

namespace {

constexpr uint16_t uncompressed_bit = 0x8000;
/// What a kept block costs beside its bytes, so that many tiny blocks are bounded too.
constexpr uint64_t block_overhead = 96;

}  // namespace

MetadataBlock Metadata::load(uint64_t at) {
    uint16_t header = 0;
    file_.read(sys::bytes_of(header), at);
    size_t stored = header & ~uncompressed_bit;
    if (stored == 0 || stored > block_bytes) file_.damaged(cat("the metadata block at byte ", at, " has a wrong size"));
    char packed[block_bytes];
    char unpacked[block_bytes];
    file_.read(std::span(packed).first(stored), at + sizeof header);
    const char* bytes = packed;
    long size = static_cast<long>(stored);
    if (!(header & uncompressed_bit)) {
        size = unpack(codec_, {packed, stored}, unpacked);
        bytes = unpacked;
    }
    if (size <= 0) file_.damaged(cat("the metadata block at byte ", at, " cannot be unpacked"));
    MetadataBlock block{std::unique_ptr<char[]>(new char[static_cast<size_t>(size)]), static_cast<uint32_t>(size),
                        at + sizeof header + stored};
    std::memcpy(block.bytes.get(), bytes, block.size);
    return block;
}

const MetadataBlock& Metadata::block(uint64_t at) {
    auto found = blocks_.find(at);
    if (found != blocks_.end()) return found->second;
    MetadataBlock block = load(at);
    budget_.charge(block.size + block_overhead);
    unpacked_ += block.size;
    return blocks_.emplace(at, std::move(block)).first->second;
}

void Metadata::check_table(uint64_t list, uint64_t bytes) {
    uint64_t list_bytes = (bytes + block_bytes - 1) / block_bytes * sizeof(uint64_t);
    if (list > file_.size || list_bytes > file_.size - list) file_.damaged("a table is longer than the file");
    budget_.charge(bytes);
}

void Metadata::read_table(uint64_t list, std::span<char> out) {
    for (; !out.empty(); list += sizeof(uint64_t)) {
        uint64_t at = 0;
        file_.read(sys::bytes_of(at), list);
        MetadataBlock block = load(at);
        size_t wanted = std::min(out.size(), block_bytes);
        if (block.size != wanted) file_.damaged("a block of a table is short");
        std::memcpy(out.data(), block.bytes.get(), wanted);
        out = out.subspan(wanted);
    }
}

Cursor::Cursor(Metadata& metadata, uint64_t table, uint64_t reference)
    : metadata_(metadata), block_(nullptr), offset_(reference & 0xFFFF) {
    uint64_t position = reference >> 16;
    if (position > metadata.file().size) metadata.file().damaged("a reference points past its end");
    block_ = &metadata.block(table + position);
    if (offset_ > block_->size) metadata.file().damaged("a reference points past the end of its metadata block");
}

void Cursor::read(std::span<char> out) {
    for (;;) {
        size_t part = std::min<size_t>(out.size(), block_->size - offset_);
        std::memcpy(out.data(), block_->bytes.get() + offset_, part);
        offset_ += part;
        out = out.subspan(part);
        if (out.empty()) return;
        block_ = &metadata_.block(block_->next);
        offset_ = 0;
    }
}

}  // namespace berth::squash
