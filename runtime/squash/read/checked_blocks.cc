#include "runtime/squash/read/checked_blocks.hh"

#include <sys/mman.h>

namespace berth::squash {

namespace {

/// Any bit of the block's place changes about half of those of the result, of which zero is left out: it means that
/// there is nothing.
uint64_t mixed(const BlockKey& key) {
    uint64_t hash = (key.start ^ (uint64_t{key.layer} << 44)) * 0x9E3779B97F4A7C15;
    hash = (hash ^ (hash >> 29)) * 0xBF58476D1CE4E5B9;
    return (hash ^ (hash >> 32)) | (uint64_t{1} << 63);
}

constexpr uint64_t time_bits = 0xFFFFFF;  // half a year of seconds
constexpr uint64_t name_bits = ~time_bits;

}  // namespace

// Pages that come as they are used: most containers never read part of such a block, and calloc() would write to all of
// them where the memory is a thread's, 31 page faults of a start.
CheckedBlocks::Place* CheckedBlocks::zeroed() {
    void* memory = ::mmap(nullptr, places * sizeof(Place), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<Place*>(memory);
}

void CheckedBlocks::Unmap::operator()(void* memory) const { ::munmap(memory, places * sizeof(Place)); }

bool CheckedBlocks::has(const BlockKey& key, uint32_t now) const {
    if (!places_) return false;
    uint64_t name = mixed(key);
    uint64_t found = places_[name % places].load(std::memory_order_relaxed);
    uint64_t age = (now - found) & time_bits;
    return ((found ^ name) & name_bits) == 0 && age < seconds;
}

void CheckedBlocks::add(const BlockKey& key, uint32_t now) {
    if (!places_) return;
    uint64_t name = mixed(key);
    places_[name % places].store((name & name_bits) | (now & time_bits), std::memory_order_relaxed);
}

void CheckedBlocks::clear() {
    if (places_) ::madvise(places_.get(), places * sizeof(Place), MADV_DONTNEED);
}

}  // namespace berth::squash
