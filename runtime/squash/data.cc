#include "runtime/squash/data.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/squash/block_cache.hh"
#include "runtime/squash/codec.hh"
#include "runtime/squash/tree_data.hh"

namespace berth::squash {

namespace {

constexpr uint32_t largest_block = 1 << 20;

/// A layer file ready to read from.
struct Layer {
    Fd file;
    Codec codec = Codec::none;
    uint32_t block_size = 0;
};

/// A stored block and the bytes it unpacks to.
struct Stored {
    uint32_t layer = 0;
    uint64_t start = 0;
    uint32_t size = 0;  ///< as in FileData::blocks
    uint32_t unpacked = 0;
    bool exact = true;  ///< false: `unpacked` is only the most there can be (a fragment block)
    uint32_t bytes() const { return size & block_size_mask; }
    bool plain() const { return size & block_uncompressed; }
};

/// 0, or -errno; a file that ends early is damaged.
int read_exactly(int fd, void* out, size_t size, uint64_t offset) {
    auto* at = static_cast<char*>(out);
    while (size > 0) {
        ssize_t got = ::pread(fd, at, size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -EIO;
        at += got;
        size -= static_cast<size_t>(got);
        offset += static_cast<uint64_t>(got);
    }
    return 0;
}

/// Offset of block `number` from the start of the file's first block.
uint64_t block_offset(const FileData& file, uint32_t number) {
    auto add_up = [&](uint32_t from, uint32_t to) {
        uint64_t sum = 0;
        for (; from < to; ++from) sum += file.blocks[from] & block_size_mask;
        return sum;
    };
    if (!file.sums || number < file.first_sum) return add_up(0, number);
    constexpr uint32_t interval = 64;
    uint32_t steps = (number - file.first_sum) / interval;
    return add_up(0, file.first_sum) + (file.sums[steps] - file.sums[0]) + add_up(file.first_sum + steps * interval, number);
}

}  // namespace

struct DataReader::Impl {
    std::vector<Layer> layers;
    BlockCache cache;

    explicit Impl(size_t cache_bytes, uint32_t block_size) : cache(cache_bytes, block_size) {}

    long unpack_to(const Stored& block, void* out, size_t capacity) const;
    int read_part(const Stored& block, uint32_t from, void* out, size_t size);
    int read_plain(const FileData& file, uint32_t& number, Stored block, uint32_t from, char*& out, size_t& left) const;
    int read_blocks(const FileData& file, uint64_t& offset, char*& out, size_t& left);
    int read_tail(const FileData& file, uint64_t offset, char* out, size_t left);
};

/// Unpacks a block; the number of bytes, or -errno.
long DataReader::Impl::unpack_to(const Stored& block, void* out, size_t capacity) const {
    const Layer& layer = layers[block.layer];
    if (block.bytes() == 0 || block.bytes() > layer.block_size) return -EIO;
    if (block.plain()) {
        if (block.bytes() > capacity) return -EIO;
        int problem = read_exactly(layer.file.get(), out, block.bytes(), block.start);
        return problem ? problem : static_cast<long>(block.bytes());
    }
    thread_local std::unique_ptr<char[]> packed = std::make_unique_for_overwrite<char[]>(largest_block);
    if (int problem = read_exactly(layer.file.get(), packed.get(), block.bytes(), block.start)) return problem;
    long size = unpack(layer.codec, packed.get(), block.bytes(), out, capacity);
    return size < 0 ? -EIO : size;
}

/// `size` bytes from byte `from` of an unpacked block, by way of the cache.
int DataReader::Impl::read_part(const Stored& block, uint32_t from, void* out, size_t size) {
    BlockKey key{block.layer, block.start};
    uint32_t capacity = layers[block.layer].block_size;
    std::shared_ptr<CachedBlock> cached = cache.get(key, capacity);
    std::unique_lock lock(cached->mutex);
    if (!cached->filled) {
        if (!cached->bytes) cached->bytes = std::make_unique_for_overwrite<char[]>(capacity);
        long got = unpack_to(block, cached->bytes.get(), capacity);
        if (got < 0) {
            lock.unlock();
            cache.drop(key, cached);
            return static_cast<int>(got);
        }
        cached->size = static_cast<uint32_t>(got);
        cached->filled = true;
    }
    lock.unlock();
    if (block.exact && cached->size != block.unpacked) return -EIO;
    if (from > cached->size || size > cached->size - from) return -EIO;
    std::memcpy(out, cached->bytes.get() + from, size);
    return 0;
}

/// Reads on through the blocks stored uncompressed, which follow each other in the layer file just as in the file: one system call.
int DataReader::Impl::read_plain(const FileData& file, uint32_t& number, Stored block, uint32_t from, char*& out, size_t& left) const {
    const Layer& layer = layers[block.layer];
    size_t size = 0;
    uint64_t start = block.start + from;
    for (; number < file.block_count && size < left; ++number, from = 0) {
        uint32_t unpacked = static_cast<uint32_t>(std::min<uint64_t>(layer.block_size, file.size - uint64_t{number} * layer.block_size));
        if (!(file.blocks[number] & block_uncompressed)) break;
        if ((file.blocks[number] & block_size_mask) != unpacked) return -EIO;
        size += unpacked - from;
    }
    size = std::min(size, left);
    if (int problem = read_exactly(layer.file.get(), out, size, start)) return problem;
    out += size;
    left -= size;
    return 0;
}

/// Reads what lies in blocks of the file's own; `offset`, `out` and `left` are moved on.
int DataReader::Impl::read_blocks(const FileData& file, uint64_t& offset, char*& out, size_t& left) {
    uint32_t block_size = layers[file.layer].block_size;
    auto number = static_cast<uint32_t>(std::min<uint64_t>(offset / block_size, file.block_count));
    uint64_t place = file.start + block_offset(file, number);
    while (left > 0 && number < file.block_count) {
        uint64_t block_start = uint64_t{number} * block_size;
        Stored block{file.layer, place, file.blocks[number], static_cast<uint32_t>(std::min<uint64_t>(block_size, file.size - block_start))};
        auto from = static_cast<uint32_t>(offset - block_start);
        size_t size = std::min<size_t>(left, block.unpacked - from);
        int problem = 0;
        if (block.bytes() == 0) {
            std::memset(out, 0, size);
        } else if (block.plain()) {
            char* before = out;
            uint32_t first = number;
            if (int failed = read_plain(file, number, block, from, out, left)) return failed;
            offset += static_cast<uint64_t>(out - before);
            place += block_offset(file, number) - block_offset(file, first);
            continue;
        } else if (size == block.unpacked) {
            problem = unpack_to(block, out, size) == static_cast<long>(size) ? 0 : -EIO;
        } else {
            problem = read_part(block, from, out, size);
        }
        if (problem) return problem;
        place += block.bytes();
        ++number;
        offset += size;
        out += size;
        left -= size;
    }
    return 0;
}

int DataReader::Impl::read_tail(const FileData& file, uint64_t offset, char* out, size_t left) {
    if (!file.has_fragment) return -EIO;
    Stored block{file.layer, file.fragment_start, file.fragment_size, layers[file.layer].block_size, false};
    uint64_t from = file.fragment_offset + (offset - uint64_t{file.block_count} * block.unpacked);
    if (from > block.unpacked) return -EIO;
    return read_part(block, static_cast<uint32_t>(from), out, left);
}

DataReader::DataReader(std::vector<Fd> layer_files, const std::vector<LayerInfo>& layers, size_t cache_bytes) {
    uint32_t largest = 0;
    for (const LayerInfo& layer : layers) largest = std::max(largest, layer.block_size);
    impl_ = std::make_unique<Impl>(cache_bytes, largest);
    for (size_t i = 0; i < std::min(layer_files.size(), layers.size()); ++i)
        impl_->layers.push_back({std::move(layer_files[i]), layers[i].codec, std::min(layers[i].block_size, largest_block)});
}

DataReader::~DataReader() = default;

long DataReader::read(const FileData& file, uint64_t offset, void* out, size_t size) {
    if (file.layer >= impl_->layers.size() || impl_->layers[file.layer].block_size == 0) return -EIO;
    if (offset >= file.size) return 0;
    size_t left = std::min<uint64_t>(size, file.size - offset);
    auto total = static_cast<long>(left);
    auto* at = static_cast<char*>(out);
    if (int problem = impl_->read_blocks(file, offset, at, left)) return problem;
    if (left > 0)
        if (int problem = impl_->read_tail(file, offset, at, left)) return problem;
    return total;
}

}  // namespace berth::squash
