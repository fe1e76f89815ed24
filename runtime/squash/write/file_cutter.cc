#include "runtime/squash/write/file_cutter.hh"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace berth::squash {

namespace {

bool is_zero(std::span<const uint8_t> bytes) {
    return bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

void FileCutter::begin(StoredFile& file, bool may_be_program) {
    file_ = &file;
    may_be_program_ = may_be_program;
    has_blocks_ = false;
    used_ = 0;
}

void FileCutter::append(std::string_view data) {
    file_->size += data.size();
    while (!data.empty()) {
        if (used_ == pool_.block_size()) flush();
        if (!current_) current_ = pool_.take();
        auto part = static_cast<uint32_t>(std::min<size_t>(data.size(), pool_.block_size() - used_));
        std::memcpy(current_.get() + used_, data.data(), part);
        data.remove_prefix(part), used_ += part;
    }
}

void FileCutter::append_zeros(uint64_t size) {
    static const char zeros[4096] = {};
    auto fill = [&](uint64_t bytes) {
        for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, sizeof zeros))
            append({zeros, std::min<uint64_t>(bytes, sizeof zeros)});
    };
    // Whole blocks of a hole need not be looked at.
    if (used_ > 0 && used_ < pool_.block_size()) {
        uint64_t part = std::min<uint64_t>(size, pool_.block_size() - used_);
        fill(part);
        size -= part;
    }
    if (uint64_t count = size / pool_.block_size(); count > 0) {
        if (used_ > 0) flush();
        file_->size += count * pool_.block_size();
        add_holes(count, count * pool_.block_size());
        size -= count * pool_.block_size();
    }
    fill(size);
}

/// To be asked before each block: the first one tells.
bool FileCutter::is_program() {
    if (may_be_program_ && !has_blocks_)
        may_be_program_ = used_ >= SELFMAG && std::memcmp(current_.get(), ELFMAG, SELFMAG) == 0;
    return may_be_program_;
}

void FileCutter::flush() {
    if (is_zero({current_.get(), used_})) {
        add_holes(1, used_);
    } else {
        // Looks at the block, which is then given away.
        Packing packing = is_program() ? Packing::none : Packing::usual;
        blocks_.add_block(*file_, std::move(current_), used_, packing);
        has_blocks_ = true;
    }
    used_ = 0;
}

void FileCutter::add_holes(uint64_t count, uint64_t bytes) {
    blocks_.add_holes(*file_, count);
    file_->holes += bytes;
    has_blocks_ = true;
}

void FileCutter::end() {
    bool has_tail = used_ > 0 && used_ < pool_.block_size() && !is_zero({current_.get(), used_});
    // A program's end is a block of its own, as reading a tail means to unpack what it lies in.
    if (has_tail && is_program()) has_tail = false;
    if (used_ > 0 && !has_tail) flush();
    // First the end of the blocks: the tail may send a fragment after them.
    if (has_blocks_) blocks_.end_file(*file_);
    if (has_tail) tails_.add(*file_, {current_.get(), used_});
    used_ = 0;
}

void FileCutter::finish(sqfs_frag_table_t& table) {
    current_.reset();
    tails_.finish();
    blocks_.finish(table);
}

}  // namespace berth::squash
