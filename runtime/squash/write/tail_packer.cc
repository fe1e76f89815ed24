#include "runtime/squash/write/tail_packer.hh"

#include <cstring>
#include <string_view>

#include "runtime/base/sys.hh"
#include "runtime/squash/format/codec.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

constexpr size_t remembered = 8;

}  // namespace

void TailPacker::add(StoredFile& file, std::span<const uint8_t> bytes) {
    auto size = static_cast<uint32_t>(bytes.size());
    uint64_t hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), size});
    auto known = places_.find(hash);
    if (known == places_.end() || !is_at(known->second, bytes)) {
        if (used_ + size > pool_.block_size()) flush();
        if (!current_) current_ = pool_.take();
        std::memcpy(current_.get() + used_, bytes.data(), size);
        known = places_.try_emplace(hash, Place{number_, used_, size}).first;
        file.fragment = number_;
        file.fragment_offset = used_;
        used_ += size;
        return;
    }
    file.fragment = known->second.fragment;
    file.fragment_offset = known->second.offset;
}

bool TailPacker::is_at(const Place& place, std::span<const uint8_t> bytes) {
    if (place.size != bytes.size()) return false;
    const uint8_t* there = place.fragment == number_ ? current_.get() : unpacked(place.fragment);
    return there != nullptr && std::memcmp(there + place.offset, bytes.data(), bytes.size()) == 0;
}

/// The bytes of an earlier fragment; null when the file cannot be read any more, which the writer's next check tells.
const uint8_t* TailPacker::unpacked(uint32_t fragment) {
    for (const Unpacked& one : unpacked_)
        if (one.fragment == fragment) return one.bytes.data();
    StoredBlock block = blocks_.fragment(fragment);
    uint32_t size = block.size & block_size_mask;
    std::string stored(size, '\0');
    file_.read_at(&file_, block.start, stored.data(), size);
    std::vector<uint8_t>& bytes = remember(fragment);
    if ((block.size & block_uncompressed) != 0)
        std::memcpy(bytes.data(), stored.data(), size);
    else if (unpack(pool_.compression().codec, stored, sys::bytes_of(std::span(bytes))) < 0)
        return nullptr;
    return bytes.data();
}

std::vector<uint8_t>& TailPacker::remember(uint32_t fragment) {
    if (unpacked_.size() < remembered) {
        unpacked_.push_back({fragment, std::vector<uint8_t>(pool_.block_size())});
        return unpacked_.back().bytes;
    }
    Unpacked& oldest = unpacked_[next_++ % remembered];
    oldest.fragment = fragment;
    return oldest.bytes;
}

void TailPacker::flush() {
    std::memcpy(remember(number_).data(), current_.get(), used_);
    blocks_.add_fragment(std::move(current_), used_);
    ++number_;
    used_ = 0;
}

void TailPacker::finish() {
    if (used_ > 0) flush();
    current_.reset();
}

}  // namespace berth::squash
