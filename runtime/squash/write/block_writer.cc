#include "runtime/squash/write/block_writer.hh"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

uint64_t hash_of(const uint8_t* bytes, uint32_t size) {
    return format::bulk_hash({reinterpret_cast<const char*>(bytes), size});
}

uint64_t mixed(uint64_t hash, uint64_t next) {
    hash ^= next + 0x9E3779B97F4A7C15 + (hash << 6) + (hash >> 2);
    return hash;
}

uint32_t size_word(uint32_t size, bool is_packed) { return is_packed ? size : size | block_uncompressed; }

}  // namespace

BlockWriter::BlockWriter(OutputFile& file, CompressorPool& pool) : file_(file), pool_(pool), position_(file.size()) {}

BlockWriter::~BlockWriter() {
    dropped_ = true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return packing_ == 0 && !is_writing_; });
}

void BlockWriter::add_block(StoredFile& file, Buffer bytes, uint32_t size, Packing how) {
    add({.kind = Item::Kind::block, .file = &file, .bytes = std::move(bytes), .size = size, .how = how});
}

void BlockWriter::add_holes(StoredFile& file, uint64_t count) {
    add({.kind = Item::Kind::holes, .file = &file, .is_ready = true, .count = count});
}

void BlockWriter::end_file(StoredFile& file) { add({.kind = Item::Kind::end, .file = &file, .is_ready = true}); }

uint32_t BlockWriter::add_fragment(Buffer bytes, uint32_t size) {
    add({.kind = Item::Kind::fragment, .bytes = std::move(bytes), .size = size});
    return fragments_added_++;
}

StoredBlock BlockWriter::fragment(uint32_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return fragments_.size() > number || dropped_; });
    StoredBlock found = fragments_.size() > number ? fragments_[number] : StoredBlock{};
    lock.unlock();
    check();
    return found;
}

void BlockWriter::finish(sqfs_frag_table_t& table) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return items_.empty() && packing_ == 0 && !is_writing_; });
    lock.unlock();
    check();
    file_.check(file_.truncate(&file_, position_));
    for (const StoredBlock& block : fragments_) {
        sqfs_u32 index = 0;
        file_.check(sqfs_frag_table_append(&table, block.start, block.size, &index));
    }
}

void BlockWriter::add(Item item) {
    check();
    std::unique_lock lock(mutex_);
    items_.push_back(std::move(item));
    Item& added = items_.back();  // stays in its place until it is written
    if (added.is_ready) return write_ready(lock);
    ++packing_;
    lock.unlock();
    try {
        pool_.submit([this, &added](Packer& packer) { pack(added, packer); });
    } catch (...) {
        lock.lock();
        --packing_;
        items_.pop_back();
        throw;
    }
}

void BlockWriter::pack(Item& item, Packer& packer) noexcept {
    try {
        if (!dropped_) {
            uint32_t packed = item.how == Packing::usual ? packer.pack(item.bytes.get(), item.size) : 0;
            item.is_packed = packed > 0;
            if (item.is_packed) item.size = packed;
            item.hash = hash_of(item.bytes.get(), item.size);
        }
    } catch (...) {
        fail(std::current_exception());
    }
    std::unique_lock lock(mutex_);
    --packing_;
    item.is_ready = true;
    write_ready(lock);
}

/// Whoever makes the first item ready writes it, and what has become ready behind it meanwhile; so nothing waits for
/// the thread that adds.
void BlockWriter::write_ready(std::unique_lock<std::mutex>& lock) noexcept {
    if (!is_writing_) {
        is_writing_ = true;
        while (!items_.empty() && items_.front().is_ready) {
            Item item = std::move(items_.front());
            items_.pop_front();
            lock.unlock();
            try {
                if (!dropped_) write(item);
            } catch (...) {
                fail(std::current_exception());
            }
            item.bytes.reset();
            lock.lock();
        }
        is_writing_ = false;
    }
    changed_.notify_all();
}

void BlockWriter::write(Item& item) {
    switch (item.kind) {
        case Item::Kind::block: return write_block(item);
        case Item::Kind::holes: return void(item.file->blocks.insert(item.file->blocks.end(), item.count, 0));
        case Item::Kind::end: return write_end(*item.file);
        case Item::Kind::fragment: break;
    }
    StoredBlock block = put(item);
    note_final();
    std::lock_guard lock(mutex_);
    fragments_.push_back(block);
}

StoredBlock BlockWriter::put(const Item& item) {
    StoredBlock block{position_, size_word(item.size, item.is_packed)};
    file_.write_at(&file_, position_, item.bytes.get(), item.size);  // a failure waits in the file for check()
    position_ += item.size;
    sums_.push_back({block.start, item.size, item.hash});
    return block;
}

void BlockWriter::write_block(const Item& item) {
    StoredBlock block = put(item);
    if (run_size_ == 0) {
        item.file->start = run_start_ = block.start;
        first_hash_ = mixed(item.hash, block.size);
        may_be_known_ = first_blocks_.contains(first_hash_);
    }
    item.file->blocks.push_back(block.size);
    run_hash_ = mixed(mixed(run_hash_, item.hash), block.size);
    run_size_ += item.size;
    note_final();
}

/// What is not yet final is a file that may turn out to be one that is stored already.
void BlockWriter::note_final() { file_.note_final(run_size_ > 0 && may_be_known_ ? run_start_ : position_); }

void BlockWriter::write_end(StoredFile& file) {
    if (run_size_ > 0) {
        // One candidate for a hash: a search is one comparison, whatever an image is made of.
        auto [known, is_new] = runs_.try_emplace(run_hash_, &file);
        if (!is_new && is_stored_at(*known->second, file, run_size_)) {
            position_ = file.start;
            while (!sums_.empty() && sums_.back().start >= position_) sums_.pop_back();
            file.start = known->second->start;
        }
        first_blocks_.insert(first_hash_);
    }
    run_hash_ = run_size_ = 0;
}

/// True when the blocks of both, `size` bytes each, are the same.
bool BlockWriter::is_stored_at(const StoredFile& one, const StoredFile& other, uint64_t size) {
    if (one.blocks != other.blocks) return false;
    constexpr uint64_t piece = 64 << 10;
    std::vector<uint8_t> left(piece), right(piece);
    for (uint64_t at = 0; at < size; at += piece) {
        size_t part = std::min(piece, size - at);
        file_.read_at(&file_, one.start + at, left.data(), part);
        file_.read_at(&file_, other.start + at, right.data(), part);
        if (std::memcmp(left.data(), right.data(), part) != 0) return false;
    }
    return true;
}

void BlockWriter::fail(std::exception_ptr failure) noexcept {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    dropped_ = true;
    changed_.notify_all();
}

void BlockWriter::check() {
    file_.check(0);
    if (!dropped_) return;
    std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
}

}  // namespace berth::squash
