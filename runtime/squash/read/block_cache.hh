// Unpacked blocks kept for the next reader, within a limit of bytes.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace berth::squash {

/// Which block: the layer and its place in the layer file.
struct BlockKey {
    uint32_t layer = 0;
    uint64_t start = 0;
    bool operator==(const BlockKey&) const = default;
};

/// An unpacked block. Whoever gets it first fills it while the others wait for `mutex`.
struct CachedBlock {
    std::mutex mutex;
    bool filled = false;
    uint32_t size = 0;      ///< bytes unpacked
    uint32_t capacity = 0;  ///< bytes at `bytes`
    std::unique_ptr<char[]> bytes;
};

/// Least recently used blocks go first; parts ("shards") with a lock each keep threads out of one another's way. Safe
/// for many threads.
class BlockCache {
  public:
    /// `largest` is the most bytes a block can have. A limit below it means that nothing is kept.
    BlockCache(size_t limit, size_t largest);

    /// The block for `key`, filled or new, with room for `capacity` bytes.
    std::shared_ptr<CachedBlock> get(BlockKey key, uint32_t capacity);

    /// Takes a block out again that could not be filled, so that the next reader tries anew.
    void drop(BlockKey key, const std::shared_ptr<CachedBlock>& block);

    /// Forgets all blocks. Those that somebody reads go with their last reader.
    void clear();

  private:
    struct Hash {
        size_t operator()(const BlockKey& key) const {
            return (key.start * 128 + key.layer) * 0x9E3779B97F4A7C15ULL >> 16;
        }
    };
    struct Item {
        BlockKey key;
        std::shared_ptr<CachedBlock> block;
    };
    struct Shard {
        std::mutex mutex;
        std::list<Item> order;  ///< the most recently used first
        std::unordered_map<BlockKey, std::list<Item>::iterator, Hash> items;
        size_t bytes = 0;
    };
    static std::unique_ptr<char[]> make_room(Shard& shard, size_t limit, uint32_t capacity);
    Shard& shard_of(BlockKey key) { return shards_[Hash()(key) % shards_.size()]; }

    std::vector<Shard> shards_;
    size_t shard_limit_;
};

}  // namespace berth::squash
