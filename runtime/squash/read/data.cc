#include "runtime/squash/read/data.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "runtime/base/chunk_map.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/thread_buffer.hh"
#include "runtime/squash/format/codec.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/block_cache.hh"
#include "runtime/squash/read/checked_blocks.hh"
#include "runtime/squash/read/chunk_log.hh"

namespace berth::squash {

namespace {

constexpr uint32_t largest_block = 1 << 20;
constexpr uint32_t usual_block = 128 << 10;

/// A layer file ready to read from.
struct Layer {
    Fd file;
    Codec codec = Codec::none;
    uint32_t block_size = 0;
    std::optional<FileStamp> stamp = {};
    std::shared_ptr<const PartSums> sums = {};
    /// To be asked when its bytes have been read.
    bool is_unchanged() const { return !stamp || has_stamp(file.get(), *stamp); }
    /// 0, or -errno.
    int read(std::span<char> out, uint64_t offset) const;
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
    /// Where its stored bytes go in a buffer that has room for them.
    std::span<char> first_of(std::span<char> buffer) const { return buffer.first(bytes()); }
};

/// How far a read of a file has come.
struct Position {
    uint32_t number;  ///< of the block
    uint64_t place;   ///< of the block in the layer file
    uint64_t offset;  ///< in the file
    std::span<char> out;  ///< what is still to be filled
    void advance(size_t size) {
        offset += size;
        out = out.subspan(size);
    }
    void skip(const FileData& file) { place += file.blocks[number++] & block_size_mask; }
};

thread_local ThreadBuffer stored_bytes;

/// For one stored block; of the calling thread.
std::span<char> scratch() { return stored_bytes.get(largest_block, usual_block); }

uint32_t seconds_now() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<uint32_t>(now.tv_sec);
}

/// 0, or -errno; a file that ends early is damaged.
int read_exactly(int fd, std::span<char> out, uint64_t offset) {
    while (!out.empty()) {
        ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -EIO;
        out = out.subspan(static_cast<size_t>(got));
        offset += static_cast<uint64_t>(got);
    }
    return 0;
}

int Layer::read(std::span<char> out, uint64_t offset) const {
    return sums ? sums->read(file.get(), out, offset) : read_exactly(file.get(), out, offset);
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
    ComingLayers coming;
    BlockCache cache;
    CheckedBlocks checked;

    explicit Impl(size_t cache_bytes, uint32_t block_size) : cache(cache_bytes, block_size) {}

    long unpack_to(const Stored& block, std::span<char> out) const;
    int read_part(const Stored& block, uint32_t from, std::span<char> out);
    Stored block_at(const FileData& file, uint32_t number, uint64_t place) const;
    bool may_be_read_in_part(const Stored& block) const {
        return block.hash == 0 || checked.has({block.layer, block.start}, seconds_now());
    }
    int read_plain_part(const Stored& block, uint32_t from, std::span<char> out);
    std::array<ChunkMap::Chunks, 2> chunks_of(const FileData& file, uint64_t offset, uint64_t size) const;
    int wait(const FileData& file, uint64_t offset, uint64_t size, const std::function<bool()>& interrupted) const;
    int read_run(const FileData& file, Position& at);
    int read_blocks(const FileData& file, Position& at);
    int read_tail(const FileData& file, uint64_t offset, std::span<char> out);
};

Stored DataReader::Impl::block_at(const FileData& file, uint32_t number, uint64_t place) const {
    uint32_t block_size = layers[file.layer].block_size;
    auto unpacked = static_cast<uint32_t>(std::min<uint64_t>(block_size, file.size - uint64_t{number} * block_size));
    return {.layer = file.layer,
            .start = place,
            .size = file.blocks[number],
            .unpacked = unpacked,
            .hash = file.hashes ? file.hashes[number] : 0};
}

/// Unpacks a block; the number of bytes, or -errno. One that is not as it was written is -EIO, whether or not it can be
/// unpacked.
long DataReader::Impl::unpack_to(const Stored& block, std::span<char> out) const {
    const Layer& layer = layers[block.layer];
    if (block.bytes() == 0 || block.bytes() > layer.block_size) return -EIO;
    if (block.plain()) {
        if (block.bytes() > out.size()) return -EIO;
        if (int problem = layer.read(block.first_of(out), block.start)) return problem;
        return block.is_intact(out.data()) ? static_cast<long>(block.bytes()) : -EIO;
    }
    std::span<char> packed = block.first_of(scratch());
    if (int problem = layer.read(packed, block.start)) return problem;
    if (!block.is_intact(packed.data())) return -EIO;
    long size = unpack(layer.codec, {packed.data(), packed.size()}, out);
    return size < 0 ? -EIO : size;
}

/// What an unpacked block has from byte `from` on, by way of the cache.
int DataReader::Impl::read_part(const Stored& block, uint32_t from, std::span<char> out) {
    BlockKey key{block.layer, block.start};
    uint32_t capacity = layers[block.layer].block_size;
    std::shared_ptr<CachedBlock> cached = cache.get(key, capacity);
    std::unique_lock lock(cached->mutex);
    if (!cached->filled) {
        if (!cached->bytes) {
            cached->bytes = std::unique_ptr<char[]>(new char[capacity]);
            sys::make_present({cached->bytes.get(), capacity});
        }
        long got = unpack_to(block, {cached->bytes.get(), capacity});
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
    if (from > cached->size || out.size() > cached->size - from) return -EIO;
    std::memcpy(out.data(), cached->bytes.get() + from, out.size());
    return 0;
}

/// Part of a block that is stored uncompressed, of which the whole must be looked at. The kernel keeps it better than
/// the cache would.
int DataReader::Impl::read_plain_part(const Stored& block, uint32_t from, std::span<char> out) {
    if (block.bytes() != block.unpacked) return -EIO;
    std::span<char> whole = block.first_of(scratch());
    if (int problem = layers[block.layer].read(whole, block.start)) return problem;
    if (!block.is_intact(whole.data())) return -EIO;
    checked.add({block.layer, block.start}, seconds_now());
    std::memcpy(out.data(), whole.data() + from, out.size());
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
    for (uint32_t skip = from; end < file.block_count && size < at.out.size(); ++end, skip = 0) {
        Stored block = block_at(file, end, place);
        bool whole = skip == 0 && block.unpacked <= at.out.size() - size;
        if (!block.plain() || !(whole || may_be_read_in_part(block))) break;
        if (block.bytes() != block.unpacked) return -EIO;
        size += block.unpacked - skip;
        place += block.bytes();
    }
    size = std::min(size, at.out.size());
    if (int problem = layer.read(at.out.first(size), at.place + from)) return problem;
    for (size_t done = 0, skip = from; at.number < end; skip = 0, at.skip(file)) {
        Stored block = block_at(file, at.number, at.place);
        bool whole = skip == 0 && block.unpacked <= size - done;
        if (whole && !block.is_intact(at.out.data() + done)) return -EIO;
        done += block.unpacked - skip;
    }
    at.advance(size);
    return 0;
}

/// Reads what lies in blocks of the file's own; `at` is moved on.
int DataReader::Impl::read_blocks(const FileData& file, Position& at) {
    uint32_t block_size = layers[file.layer].block_size;
    while (!at.out.empty() && at.number < file.block_count) {
        Stored block = block_at(file, at.number, at.place);
        auto from = static_cast<uint32_t>(at.offset - uint64_t{at.number} * block_size);
        std::span<char> out = at.out.first(std::min<size_t>(at.out.size(), block.unpacked - from));
        bool whole = out.size() == block.unpacked;
        if (block.bytes() != 0 && block.plain() && (whole || may_be_read_in_part(block))) {
            if (int problem = read_run(file, at)) return problem;
            continue;
        }
        int problem = 0;
        if (block.bytes() == 0)
            std::memset(out.data(), 0, out.size());
        else if (whole)
            problem = unpack_to(block, out) == static_cast<long>(out.size()) ? 0 : -EIO;
        else if (block.plain())
            problem = read_plain_part(block, from, out);
        else
            problem = read_part(block, from, out);
        if (problem) return problem;
        at.advance(out.size());
        at.skip(file);
    }
    return 0;
}

int DataReader::Impl::read_tail(const FileData& file, uint64_t offset, std::span<char> out) {
    if (!file.has_fragment) return -EIO;
    Stored block{.layer = file.layer,
                 .start = file.fragment_start,
                 .size = file.fragment_size,
                 .unpacked = layers[file.layer].block_size,
                 .exact = false,
                 .hash = file.fragment_hash};
    uint64_t from = file.fragment_offset + (offset - uint64_t{file.block_count} * block.unpacked);
    if (from > block.unpacked) return -EIO;
    return read_part(block, static_cast<uint32_t>(from), out);
}

/// Those that a read needs: of the file's own blocks, and of the fragment block.
std::array<ChunkMap::Chunks, 2> DataReader::Impl::chunks_of(const FileData& file, uint64_t offset,
                                                           uint64_t size) const {
    auto between = [&](uint64_t from, uint64_t bytes) {
        auto first = static_cast<uint32_t>(from / ChunkMap::chunk_size);
        auto last = static_cast<uint32_t>((from + std::max<uint64_t>(bytes, 1) - 1) / ChunkMap::chunk_size);
        return ChunkMap::Chunks{coming.first[file.layer] + first, last - first + 1};
    };
    std::array<ChunkMap::Chunks, 2> out{};
    uint32_t block_size = layers[file.layer].block_size;
    uint64_t end = std::min(file.size, offset + size);
    if (offset >= end) return out;
    auto number = static_cast<uint32_t>(std::min<uint64_t>(offset / block_size, file.block_count));
    auto behind = static_cast<uint32_t>(std::min<uint64_t>((end + block_size - 1) / block_size, file.block_count));
    uint64_t bytes = 0;
    for (uint32_t block = number; block < behind; ++block) bytes += file.blocks[block] & block_size_mask;
    if (bytes > 0) out[0] = between(file.start + block_offset(file, number), bytes);
    bool reads_tail = file.has_fragment && end > uint64_t{file.block_count} * block_size;
    if (reads_tail) out[1] = between(file.fragment_start, file.fragment_size & block_size_mask);
    return out;
}

int DataReader::Impl::wait(const FileData& file, uint64_t offset, uint64_t size,
                           const std::function<bool()>& interrupted) const {
    for (const ChunkMap::Chunks& chunks : chunks_of(file, offset, size)) {
        if (coming.log) coming.log->add(chunks);
        if (int problem = coming.map ? coming.map->wait(chunks, interrupted) : 0) return problem;
    }
    return 0;
}

DataReader::DataReader(std::vector<Fd> layer_files, const std::vector<LayerInfo>& layers, size_t cache_bytes,
                       ComingLayers coming, const Guards& guards) {
    uint32_t largest = 0;
    for (const LayerInfo& layer : layers) largest = std::max(largest, layer.block_size);
    impl_ = std::make_unique<Impl>(cache_bytes, largest);
    impl_->coming = std::move(coming);
    impl_->coming.first.resize(layers.size());
    for (size_t i = 0; i < std::min(layer_files.size(), layers.size()); ++i)
        impl_->layers.push_back(
            {std::move(layer_files[i]), layers[i].codec, std::min(layers[i].block_size, largest_block)});
    for (size_t i = 0; i < std::min(guards.stamps.size(), impl_->layers.size()); ++i)
        impl_->layers[i].stamp = guards.stamps[i];
    for (Layer& layer : impl_->layers) layer.sums = guards.sums;
}

DataReader::~DataReader() = default;

void DataReader::shrink() {
    impl_->cache.clear();
    impl_->checked.clear();
}

bool DataReader::is_here(const FileData& file, uint64_t offset, uint64_t size) const {
    if (!impl_->coming.map || file.layer >= impl_->layers.size() || impl_->layers[file.layer].block_size == 0)
        return true;
    auto chunks = impl_->chunks_of(file, offset, size);
    return std::all_of(chunks.begin(), chunks.end(),
                       [&](const ChunkMap::Chunks& part) { return impl_->coming.map->are_here(part); });
}

long DataReader::read(const FileData& file, uint64_t offset, std::span<char> out,
                      const std::function<bool()>& interrupted) {
    if (file.layer >= impl_->layers.size() || impl_->layers[file.layer].block_size == 0) return -EIO;
    if (offset >= file.size) return 0;
    out = out.first(std::min<uint64_t>(out.size(), file.size - offset));
    if (impl_->coming)
        if (int problem = impl_->wait(file, offset, out.size(), interrupted ? interrupted : impl_->coming.interrupted))
            return problem;
    auto number =
        static_cast<uint32_t>(std::min<uint64_t>(offset / impl_->layers[file.layer].block_size, file.block_count));
    // There are sums for blocks only: not for a place behind the last one.
    uint64_t place = number < file.block_count ? file.start + block_offset(file, number) : 0;
    Position at{number, place, offset, out};
    if (int problem = impl_->read_blocks(file, at)) return problem;
    if (!at.out.empty())
        if (int problem = impl_->read_tail(file, at.offset, at.out)) return problem;
    return impl_->layers[file.layer].is_unchanged() ? static_cast<long>(out.size()) : -EIO;
}

}  // namespace berth::squash
