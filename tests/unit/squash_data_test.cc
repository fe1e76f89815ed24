#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <thread>

#include "runtime/base/sys.hh"
#include "runtime/squash/index/block_sums.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/block_cache.hh"
#include "runtime/squash/read/checked_blocks.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;

namespace {

/// Layer files in memory with one file each.
struct OneFile {
    std::string content;
    Fd file{::memfd_create("layer", MFD_CLOEXEC)};
    std::vector<LayerInfo> layers{1};
    std::unique_ptr<Index> index;

    explicit OneFile(std::string bytes, bool hashes = false) : content(std::move(bytes)) {
        LayerWriter writer(file.get(), {});
        writer.begin_file("file", {.mode = 0644, .xattrs = {}});
        writer.append(content);
        writer.end_file();
        writer.finish();
        Tree tree = read_tree(file.get(), "layer", 0, layers[0]);
        if (hashes) add_sums(tree, writer.sums());
        index = std::make_unique<Index>(Index::from_bytes(build_index(tree, layers, {})));
    }
    FileData data() const { return index->file(index->lookup(1, "file")).value(); }
    DataReader reader(size_t cache_bytes) const {
        std::vector<Fd> files;
        files.emplace_back(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
        return {std::move(files), layers, cache_bytes};
    }
};

bool reads_right(DataReader& reader, const OneFile& one, uint64_t offset, size_t size) {
    std::string part(size, '#');
    long got = reader.read(one.data(), offset, {part.data(), size});
    return got >= 0 && one.content.compare(offset, size, part, 0, static_cast<size_t>(got)) == 0;
}

}  // namespace

TEST_CASE("random reads are right with any size of the cache", "[squash]") {
    OneFile one(prose(20 << 20, 1) + noise(1 << 20, 2) + std::string(1 << 20, 0) + prose(70001, 3));
    REQUIRE(one.data().sums != nullptr);
    for (size_t cache_bytes : {0, 1000, 1 << 20, 64 << 20}) {
        DataReader reader = one.reader(cache_bytes);
        std::mt19937 random(4);
        for (int i = 0; i < 300; ++i)
            REQUIRE(reads_right(reader, one, random() % one.content.size(), random() % 400000));
    }
}

TEST_CASE("parts of blocks that are stored as they are: right, and looked at as a whole", "[squash]") {
    OneFile one(noise(5 << 20, 9) + prose(200000, 10) + noise(1 << 20, 11) + noise(70001, 12), true);
    REQUIRE(one.data().hashes != nullptr);
    DataReader reader = one.reader(1 << 20);
    std::mt19937 random(4);
    for (int i = 0; i < 2000; ++i) REQUIRE(reads_right(reader, one, random() % one.content.size(), random() % 400000));

    // Damage in the middle of the fourth block of what nobody has read.
    DataReader fresh = one.reader(1 << 20);
    REQUIRE(::pwrite(one.file.get(), "garbage", 7, static_cast<off_t>(one.data().start + 3 * 131072 + 70000)) == 7);
    std::string buffer(1 << 20, 0);
    CHECK(fresh.read(one.data(), 3 * 131072, {buffer.data(), 10}) == -EIO);
    CHECK(fresh.read(one.data(), 3 * 131072 + 5, {buffer.data(), 131072}) == -EIO);
    CHECK(fresh.read(one.data(), 2 * 131072 + 5, {buffer.data(), 131072}) == -EIO);
    CHECK(fresh.read(one.data(), 0, buffer) == -EIO);
    CHECK(fresh.read(one.data(), 2 * 131072 + 5, {buffer.data(), 131067}) == 131067);
    CHECK(fresh.read(one.data(), 4 * 131072 + 5, {buffer.data(), 10}) == 10);
}

TEST_CASE("many threads read the same blocks", "[squash]") {
    OneFile one(prose(8 << 20, 5) + noise(300000, 6));
    DataReader reader = one.reader(1 << 20);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            std::mt19937 random(t % 2);
            for (int i = 0; i < 200; ++i)
                wrong += !reads_right(reader, one, random() % one.content.size(), random() % 200000);
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
}

TEST_CASE("reads end with the file", "[squash]") {
    OneFile one("twelve bytes");
    DataReader reader = one.reader(1 << 20);
    char buffer[64];
    CHECK(reader.read(one.data(), 0, buffer) == 12);
    CHECK(reader.read(one.data(), 7, buffer) == 5);
    CHECK(reader.read(one.data(), 12, buffer) == 0);
    CHECK(reader.read(one.data(), ~0ULL, buffer) == 0);
    CHECK(reader.read(one.data(), 0, {}) == 0);
}

TEST_CASE("hostile row 48: damaged and truncated layer files give EIO", "[squash]") {
    OneFile one(prose(300000, 8));
    std::string buffer(1 << 20, 0);
    FileData file = one.data();
    SECTION("another layer") {
        file.layer = 1;
        CHECK(one.reader(0).read(file, 0, buffer) == -EIO);
    }
    SECTION("no fragment") {
        file.block_count = 1;
        file.has_fragment = false;
        CHECK(one.reader(0).read(file, 0, buffer) == -EIO);
    }
    SECTION("a tail outside the fragment") {
        file.has_fragment = true;
        file.fragment_start = file.start;
        file.fragment_size = file.blocks[0];
        file.block_count = 2;
        file.fragment_offset = 131072 - 100;
        CHECK(one.reader(1 << 20).read(file, 0, buffer) == -EIO);
    }
    SECTION("blocks of impossible sizes") {
        for (uint32_t size : {0xFFFFFFFFU, 0xFFFFFFU, 131073U, 5U, 5U | 1U << 24}) {
            FileData whole = one.data();
            std::vector<uint32_t> blocks(whole.blocks, whole.blocks + whole.block_count);
            blocks[0] = size;
            file.blocks = blocks.data();
            DataReader reader = one.reader(1 << 20);
            CHECK(reader.read(file, 0, buffer) == -EIO);
            CHECK(reader.read(file, 10, {buffer.data(), 100}) == -EIO);
        }
    }
    SECTION("places outside the file") {
        file.start = 1ULL << 62;
        CHECK(one.reader(1 << 20).read(file, 0, buffer) == -EIO);
        file.start = ~0ULL;
        CHECK(one.reader(1 << 20).read(file, 0, buffer) == -EIO);
    }
    SECTION("a truncated layer") {
        REQUIRE(::ftruncate(one.file.get(), static_cast<off_t>(file.start + 1000)) == 0);
        DataReader reader = one.reader(1 << 20);
        CHECK(reader.read(file, 0, buffer) == -EIO);
        CHECK(reader.read(file, 0, {buffer.data(), 10}) == -EIO);
    }
    SECTION("an overwritten block") {
        REQUIRE(::pwrite(one.file.get(), "garbage", 7, static_cast<off_t>(file.start)) == 7);
        DataReader reader = one.reader(1 << 20);
        CHECK(reader.read(file, 0, buffer) == -EIO);
        CHECK(reader.read(file, 131072, {buffer.data(), 1000}) == 1000);
    }
}

TEST_CASE("hostile: what is read of a file that has changed since its tables were read is an error", "[squash]") {
    OneFile one(prose(300000, 8));
    auto reader_with = [&](const std::vector<FileStamp>& stamps) {
        std::vector<Fd> files;
        files.emplace_back(::fcntl(one.file.get(), F_DUPFD_CLOEXEC, 0));
        return DataReader(std::move(files), one.layers, 8 << 20, {}, {.stamps = stamps});
    };
    // Long ago, so that each write makes it later.
    timespec times[2] = {{1'000'000'000, 5}, {1'000'000'000, 5}};
    REQUIRE(::futimens(one.file.get(), times) == 0);
    FileStamp stamp = stamp_of(one.file.get()).value();
    CHECK((stamp.seconds == 1'000'000'000 && stamp.nanoseconds == 5));
    DataReader reader = reader_with({stamp}), careless = reader_with({});
    std::string buffer(1000, 0);
    FileData file = one.data();
    REQUIRE(reader.read(file, 10, buffer) == 1000);
    // Of another block, with bytes that can be unpacked: only the time tells.
    char byte = 0;
    auto last = static_cast<off_t>(stamp.size - 1);
    REQUIRE(::pread(one.file.get(), &byte, 1, last) == 1);
    REQUIRE(::pwrite(one.file.get(), &byte, 1, last) == 1);
    CHECK(careless.read(file, 10, buffer) == 1000);
    CHECK(reader.read(file, 10, buffer) == -EIO);
    CHECK(reader.read(file, 200000, buffer) == -EIO);
    // One that is as it was counts again, and a size tells too.
    REQUIRE(::futimens(one.file.get(), times) == 0);
    CHECK(reader.read(file, 10, buffer) == 1000);
    REQUIRE(::ftruncate(one.file.get(), last) == 0);
    REQUIRE(::futimens(one.file.get(), times) == 0);
    CHECK(reader.read(file, 10, buffer) == -EIO);
    CHECK(stamp_of(-1) == std::nullopt);
}

TEST_CASE("the cache keeps what was used last, within its limit", "[squash]") {
    BlockCache cache(4096, 1024);  // one shard
    auto fill = [&](uint64_t start) {
        auto block = cache.get({0, start}, 1024);
        if (!block->bytes) block->bytes = std::make_unique<char[]>(1024);
        block->filled = true;
    };
    for (uint64_t start : {1, 2, 3, 4}) fill(start);
    CHECK(cache.get({0, 1}, 1024)->filled);
    fill(5);
    CHECK(cache.get({0, 1}, 1024)->filled);
    CHECK_FALSE(cache.get({1, 1}, 1024)->filled);
    CHECK_FALSE(cache.get({0, 2}, 1024)->filled);
    auto kept = cache.get({0, 5}, 1024);
    cache.drop({0, 5}, kept);
    CHECK(kept->filled);
    CHECK_FALSE(cache.get({0, 5}, 1024)->filled);
    CHECK_FALSE(cache.get({0, 9}, 8192)->filled);
}

TEST_CASE("blocks that were looked at are known for a while, and only those", "[squash]") {
    CheckedBlocks checked;
    BlockKey one{0, 4096}, other{1, 4096};
    CHECK_FALSE(checked.has(one, 100));
    checked.add(one, 100);
    CHECK(checked.has(one, 100));
    CHECK(checked.has(one, 100 + CheckedBlocks::seconds - 1));
    CHECK_FALSE(checked.has(one, 100 + CheckedBlocks::seconds));
    CHECK_FALSE(checked.has(other, 100));
    CHECK_FALSE(checked.has({0, 8192}, 100));
    // A table that is full forgets, and never takes one for another.
    for (uint64_t i = 1; i <= 3 * CheckedBlocks::places; ++i) checked.add({0, i * 131072}, 105);
    size_t known = 0;
    for (uint64_t i = 1; i <= 3 * CheckedBlocks::places; ++i) known += checked.has({0, i * 131072}, 105);
    CHECK(known <= CheckedBlocks::places);
    CHECK(known > CheckedBlocks::places / 2);
    for (uint64_t i = 1; i <= 3 * CheckedBlocks::places; ++i) known += checked.has({1, i * 131072 + 4096}, 105);
    CHECK(known <= CheckedBlocks::places);
    // The clock goes round.
    checked.add(one, 0xFFFFFF);
    CHECK(checked.has(one, 0x1000001));
}
