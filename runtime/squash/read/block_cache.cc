#include "runtime/squash/read/block_cache.hh"

#include <algorithm>
#include <atomic>

namespace berth::squash {

namespace {

size_t shard_count(size_t limit, size_t largest) {
    // Each shard must hold a few blocks, or blocks of one shard would push each other out while others stand empty.
    constexpr size_t most = 16;
    constexpr size_t blocks_a_shard = 8;
    return std::clamp<size_t>(limit / (std::max<size_t>(largest, 1) * blocks_a_shard), 1, most);
}

}  // namespace

BlockCache::BlockCache(size_t limit, size_t largest)
    : shards_(shard_count(limit, largest)), shard_limit_(limit / shards_.size()) {}

// The thread sanitizer knows nothing of fences.
#ifdef __SANITIZE_THREAD__
constexpr bool may_use_again = false;
#else
constexpr bool may_use_again = true;
#endif

std::unique_ptr<char[]> BlockCache::make_room(Shard& shard, size_t limit, uint32_t capacity) {
    std::unique_ptr<char[]> spare;
    while (!shard.order.empty() && shard.bytes + capacity > limit) {
        Item& last = shard.order.back();
        shard.bytes -= last.block->capacity;
        // Memory of this size goes back to the kernel when freed and comes back as page faults: use it again when
        // nobody reads it any more.
        if (may_use_again && last.block.use_count() == 1 && last.block->capacity == capacity) {
            // The count is read without ordering; its last reader must be done before the bytes are written anew.
            std::atomic_thread_fence(std::memory_order_acquire);
            spare = std::move(last.block->bytes);
        }
        shard.items.erase(last.key);
        shard.order.pop_back();
    }
    return spare;
}

std::shared_ptr<CachedBlock> BlockCache::get(BlockKey key, uint32_t capacity) {
    Shard& shard = shard_of(key);
    std::unique_lock lock(shard.mutex);
    auto found = shard.items.find(key);
    if (found != shard.items.end() && found->second->block->capacity == capacity) {
        shard.order.splice(shard.order.begin(), shard.order, found->second);
        return found->second->block;
    }
    auto block = std::make_shared<CachedBlock>();
    block->capacity = capacity;
    if (found == shard.items.end() && capacity <= shard_limit_) {
        block->bytes = make_room(shard, shard_limit_, capacity);
        shard.order.push_front({key, block});
        shard.items.emplace(key, shard.order.begin());
        shard.bytes += capacity;
    }
    lock.unlock();
    return block;
}

void BlockCache::drop(BlockKey key, const std::shared_ptr<CachedBlock>& block) {
    Shard& shard = shard_of(key);
    std::lock_guard lock(shard.mutex);
    auto found = shard.items.find(key);
    if (found == shard.items.end() || found->second->block != block) return;
    shard.bytes -= block->capacity;
    shard.order.erase(found->second);
    shard.items.erase(found);
}

void BlockCache::clear() {
    for (Shard& shard : shards_) {
        std::lock_guard lock(shard.mutex);
        shard.items.clear();
        shard.order.clear();
        shard.bytes = 0;
    }
}

}  // namespace berth::squash
