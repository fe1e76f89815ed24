#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/text.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;

namespace {

constexpr uint64_t block = 128 << 10;

/// A layer of one file.
struct Layer {
    Fd file{::memfd_create("layer", MFD_CLOEXEC)};
    std::vector<LayerInfo> layers{1};

    explicit Layer(const std::string& content) {
        LayerWriter writer(file.get(), {});
        writer.begin_file("file", {.mode = 0644, .xattrs = {}});
        writer.append(content);
        writer.end_file();
        writer.finish();
    }
    Index index() { return Index::from_bytes(build_index(read_tree(file.get(), "layer", 0, layers[0]), layers, {})); }
};

/// Each stretch of data that SEEK_DATA and SEEK_HOLE find in turn, in bytes.
std::string stretches(const Index& index) {
    uint32_t number = at_path(index, "file");
    std::string text;
    for (uint64_t at = 0; auto data = index.seek(number, at, SeekFor::data);) {
        at = index.seek(number, *data, SeekFor::hole).value();
        text += cat(*data, "-", at, " ");
    }
    return text;
}

std::string zeros(uint64_t blocks) { return std::string(blocks * block, '\0'); }

}  // namespace

TEST_CASE("holes: data is found between them, and before a tail", "[squash]") {
    Index index = Layer(zeros(2) + noise(3 * block, 1) + zeros(4) + noise(1000, 2)).index();
    CHECK(stretches(index) == cat(2 * block, "-", 5 * block, " ", 9 * block, "-", 9 * block + 1000, " "));
    uint32_t number = at_path(index, "file");
    CHECK(index.seek(number, 3 * block + 7, SeekFor::data) == 3 * block + 7);
    CHECK(index.seek(number, 6 * block + 7, SeekFor::hole) == 6 * block + 7);
    CHECK(index.seek(number, 9 * block + 1, SeekFor::data) == 9 * block + 1);
    CHECK(index.seek(number, 9 * block + 1, SeekFor::hole) == 9 * block + 1000);
    for (SeekFor wanted : {SeekFor::data, SeekFor::hole}) {
        CHECK_FALSE(index.seek(number, 9 * block + 1000, wanted));
        CHECK_FALSE(index.seek(number, UINT64_MAX, wanted));
        CHECK_FALSE(index.seek(1, 0, wanted));
        CHECK_FALSE(index.seek(100, 0, wanted));
    }
    CHECK(index.hole_bytes(number) == 6 * block);
}

TEST_CASE("holes: a file of nothing else, none, and an empty one", "[squash]") {
    Index empty = Layer("").index(), full = Layer(noise(20 * block, 3)).index(), none = Layer(zeros(20)).index();
    CHECK(stretches(empty).empty());
    CHECK(stretches(full) == cat("0-", 20 * block, " "));
    CHECK(full.hole_bytes(at_path(full, "file")) == 0);
    CHECK(stretches(none).empty());
    CHECK(none.seek(at_path(none, "file"), 5, SeekFor::hole) == 5);
    CHECK(none.hole_bytes(at_path(none, "file")) == 20 * block);
    CHECK(none.hole_bytes(1) == 0);
    CHECK(none.hole_bytes(100) == 0);
}

TEST_CASE("holes: a file of more than 2^20 blocks takes what it stores", "[squash]") {
    constexpr uint64_t small_block = 4096, count = (1 << 20) + 10;
    Fd file(::memfd_create("layer", MFD_CLOEXEC));
    CompressorPool pool({}, {.threads = 1, .buffers = 8, .block_size = small_block});
    LayerWriter writer(file.get(), &pool);
    writer.begin_file("file", {});
    writer.append("data");
    writer.append_zeros(count * small_block - 4);
    writer.end_file();
    writer.finish();
    std::vector<LayerInfo> layers(1);
    Index index = Index::from_bytes(build_index(read_tree(file.get(), "layer", 0, layers[0]), layers, {}));
    CHECK(index.hole_bytes(at_path(index, "file")) == (count - 1) * small_block);
}

TEST_CASE("hostile: more fragments than files is a refused image", "[squash][hostile]") {
    Layer layer(prose(1000, 4));
    uint32_t fragments = 60'000'000;
    // Its place in the superblock.
    REQUIRE(::pwrite(layer.file.get(), &fragments, sizeof fragments, 16) == sizeof fragments);
    CHECK_THROWS_WITH(layer.index(),
                      Catch::Contains("60000000 fragments and only 2 inodes; the squashfs file is damaged"));
}
