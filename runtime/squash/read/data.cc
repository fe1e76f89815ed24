#include "runtime/squash/read/data.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "runtime/base/sys.hh"
#include "runtime/squash/format/codec.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/block_cache.hh"
#include "runtime/squash/read/checked_blocks.hh"

namespace berth::squash {

namespace {

constexpr uint32_t largest_block = 1 << 20;
constexpr uint32_t usual_block = 128 << 10;

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
    uint64_t hash = 0;  ///< of the stored bytes; 0: not known
    uint32_t bytes() const { return size & block_size_mask; }
    bool plain() const { return size & block_uncompressed; }
    /// False when these stored bytes are not those that were written.
    bool is_intact(const char* stored) const { return hash == 0 || hash == format::bulk_hash({stored, bytes()}); }
};

/// How far a read of a file has come.
struct Position {
    uint32_t number;  ///< of the block
    uint64_t place;   ///< of the block in the layer file
    uint64_t offset;  ///< in the file
    char* out;
    size_t left;
    void advance(size_t size) {
        offset += size;
        out += size;
        left -= size;
    }
    void skip(const FileData& file) { place += file.blocks[number++] & block_size_mask; }
};

thread_local std::unique_ptr<char[]> scratch_bytes;

/// For one stored block; of the calling thread.
char* scratch() {
    if (!scratch_bytes) {
        scratch_bytes = std::make_unique_for_overwrite<char[]>(largest_block);
        sys::make_present(scratch_bytes.get(), usual_block);
    }
    return scratch_bytes.get();
}

uint32_t seconds_now() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<uint32_t>(now.tv_sec);
}

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
    constexpr uint32_t interval = format::sum_interval;
    uint32_t steps = (number - file.first_sum) / interval;
    return add_up(0, file.first_sum) + (file.sums[steps] - file.sums[0]) +
           add_up(file.first_sum + steps * interval, number);
}

}  // namespace

struct DataReader::Impl {
    std::vector<Layer> layers;
    BlockCache cache;
    CheckedBlocks checked;

    explicit Impl(size_t cache_bytes, uint32_t block_size) : cache(cache_bytes, block_size) {}

    long unpack_to(const Stored& block, void* out, size_t capacity) const;
    int read_part(const Stored& block, uint32_t from, void* out, size_t size);
    Stored block_at(const FileData& file, uint32_t number, uint64_t place) const;
    bool may_be_read_in_part(const Stored& block) const {
        return block.hash == 0 || checked.has({block.layer, block.start}, seconds_now());
    }
    int read_plain_part(const Stored& block, uint32_t from, void* out, size_t size);
    int read_run(const FileData& file, Position& at);
    int read_blocks(const FileData& file, Position& at);
    int read_tail(const FileData& file, uint64_t offset, char* out, size_t left);
};

Stored DataReader::Impl::block_at(const FileData& file, uint32_t number, uint64_t place) const {
    uint32_t block_size = layers[file.layer].block_size;
    auto unpacked = static_cast<uint32_t>(std::min<uint64_t>(block_size, file.size - uint64_t{number} * block_size));
    return {file.layer, place, file.blocks[number], unpacked, true, file.hashes ? file.hashes[number] : 0};
}

/// Unpacks a block; the number of bytes, or -errno. One that is not as it was written is -EIO, whether or not it can be
/// unpacked.
long DataReader::Impl::unpack_to(const Stored& block, void* out, size_t capacity) const {
    const Layer& layer = layers[block.layer];
    if (block.bytes() == 0 || block.bytes() > layer.block_size) return -EIO;
    if (block.plain()) {
        if (block.bytes() > capacity) return -EIO;
        if (int problem = read_exactly(layer.file.get(), out, block.bytes(), block.start)) return problem;
        return block.is_intact(static_cast<const char*>(out)) ? static_cast<long>(block.bytes()) : -EIO;
    }
    char* packed = scratch();
    if (int problem = read_exactly(layer.file.get(), packed, block.bytes(), block.start)) return problem;
    if (!block.is_intact(packed)) return -EIO;
    long size = unpack(layer.codec, packed, block.bytes(), out, capacity);
    return size < 0 ? -EIO : size;
}

/// `size` bytes from byte `from` of an unpacked block, by way of the cache.
int DataReader::Impl::read_part(const Stored& block, uint32_t from, void* out, size_t size) {
    BlockKey key{block.layer, block.start};
    uint32_t capacity = layers[block.layer].block_size;
    std::shared_ptr<CachedBlock> cached = cache.get(key, capacity);
    std::unique_lock lock(cached->mutex);
    if (!cached->filled) {
        if (!cached->bytes) {
            cached->bytes = std::make_unique_for_overwrite<char[]>(capacity);
            sys::make_present(cached->bytes.get(), capacity);
        }
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

/// Part of a block that is stored uncompressed, of which the whole must be looked at. The kernel keeps it better than
/// the cache would.
int DataReader::Impl::read_plain_part(const Stored& block, uint32_t from, void* out, size_t size) {
    if (block.bytes() != block.unpacked) return -EIO;
    char* whole = scratch();
    if (int problem = read_exactly(layers[block.layer].file.get(), whole, block.bytes(), block.start)) return problem;
    if (!block.is_intact(whole)) return -EIO;
    checked.add({block.layer, block.start}, seconds_now());
    std::memcpy(out, whole + from, size);
    return 0;
}

/// Reads a run of blocks that are stored uncompressed, which follow each other in the layer file just as in the file:
/// one system call. Blocks that have to be looked at are in it only whole. The first one fits.
int DataReader::Impl::read_run(const FileData& file, Position& at) {
    const Layer& layer = layers[file.layer];
    auto from = static_cast<uint32_t>(at.offset % layer.block_size);
    size_t size = 0;
    uint32_t end = at.number;
    uint64_t place = at.place;
    for (uint32_t skip = from; end < file.block_count && size < at.left; ++end, skip = 0) {
        Stored block = block_at(file, end, place);
        bool whole = skip == 0 && block.unpacked <= at.left - size;
        if (!block.plain() || !(whole || may_be_read_in_part(block))) break;
        if (block.bytes() != block.unpacked) return -EIO;
        size += block.unpacked - skip;
        place += block.bytes();
    }
    size = std::min(size, at.left);
    if (int problem = read_exactly(layer.file.get(), at.out, size, at.place + from)) return problem;
    for (size_t done = 0, skip = from; at.number < end; skip = 0, at.skip(file)) {
        Stored block = block_at(file, at.number, at.place);
        bool whole = skip == 0 && block.unpacked <= size - done;
        if (whole && !block.is_intact(at.out + done)) return -EIO;
        done += block.unpacked - skip;
    }
    at.advance(size);
    return 0;
}

/// Reads what lies in blocks of the file's own; `at` is moved on.
int DataReader::Impl::read_blocks(const FileData& file, Position& at) {
    uint32_t block_size = layers[file.layer].block_size;
    while (at.left > 0 && at.number < file.block_count) {
        Stored block = block_at(file, at.number, at.place);
        auto from = static_cast<uint32_t>(at.offset - uint64_t{at.number} * block_size);
        size_t size = std::min<size_t>(at.left, block.unpacked - from);
        bool whole = size == block.unpacked;
        if (block.bytes() != 0 && block.plain() && (whole || may_be_read_in_part(block))) {
            if (int problem = read_run(file, at)) return problem;
            continue;
        }
        int problem = 0;
        if (block.bytes() == 0)
            std::memset(at.out, 0, size);
        else if (whole)
            problem = unpack_to(block, at.out, size) == static_cast<long>(size) ? 0 : -EIO;
        else if (block.plain())
            problem = read_plain_part(block, from, at.out, size);
        else
            problem = read_part(block, from, at.out, size);
        if (problem) return problem;
        at.advance(size);
        at.skip(file);
    }
    return 0;
}

int DataReader::Impl::read_tail(const FileData& file, uint64_t offset, char* out, size_t left) {
    if (!file.has_fragment) return -EIO;
    Stored block{file.layer, file.fragment_start, file.fragment_size, layers[file.layer].block_size,
                 false,      file.fragment_hash};
    uint64_t from = file.fragment_offset + (offset - uint64_t{file.block_count} * block.unpacked);
    if (from > block.unpacked) return -EIO;
    return read_part(block, static_cast<uint32_t>(from), out, left);
}

DataReader::DataReader(std::vector<Fd> layer_files, const std::vector<LayerInfo>& layers, size_t cache_bytes) {
    uint32_t largest = 0;
    for (const LayerInfo& layer : layers) largest = std::max(largest, layer.block_size);
    impl_ = std::make_unique<Impl>(cache_bytes, largest);
    for (size_t i = 0; i < std::min(layer_files.size(), layers.size()); ++i)
        impl_->layers.push_back(
            {std::move(layer_files[i]), layers[i].codec, std::min(layers[i].block_size, largest_block)});
}

DataReader::~DataReader() = default;

long DataReader::read(const FileData& file, uint64_t offset, void* out, size_t size) {
    if (file.layer >= impl_->layers.size() || impl_->layers[file.layer].block_size == 0) return -EIO;
    if (offset >= file.size) return 0;
    size_t left = std::min<uint64_t>(size, file.size - offset);
    auto total = static_cast<long>(left);
    auto number =
        static_cast<uint32_t>(std::min<uint64_t>(offset / impl_->layers[file.layer].block_size, file.block_count));
    // There are sums for blocks only: not for a place behind the last one.
    uint64_t place = number < file.block_count ? file.start + block_offset(file, number) : 0;
    Position at{number, place, offset, static_cast<char*>(out), left};
    if (int problem = impl_->read_blocks(file, at)) return problem;
    if (at.left > 0)
        if (int problem = impl_->read_tail(file, at.offset, at.out, at.left)) return problem;
    return total;
}

}  // namespace berth::squash
