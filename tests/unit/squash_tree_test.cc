#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;

namespace {

Fd file_of(const std::string& bytes) {
    Fd fd(::memfd_create("image", MFD_CLOEXEC));
    sys::write_all(fd.get(), bytes, "memory");
    return fd;
}

std::string problem_of(const std::string& bytes, const TreeLimits& limits = {}) {
    Fd fd = file_of(bytes);
    LayerInfo info;
    try {
        read_tree(fd.get(), "x.sqsh", 0, info, limits);
    } catch (const Error& error) {
        return error.what();
    }
    return "no problem";
}

/// An image of the small sample tree, as bytes.
std::string small_image(const std::string& options) {
    TempFolder temp;
    make_sample_tree(temp / "tree", true);
    make_image(temp / "tree", temp / "image", options);
    return read_file(temp / "image");
}

template <typename Number>
std::string patched(std::string bytes, size_t at, Number value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
}

/// Reads an image to the last byte; Error is fine, anything else is not.
bool survives(const std::string& bytes) {
    Fd fd = file_of(bytes);
    std::vector<LayerInfo> layers(1);
    try {
        Tree tree = read_tree(fd.get(), "mutated", 0, layers[0]);
        Index index = Index::from_bytes(build_index(tree, layers, {}));
        std::vector<Fd> files;
        files.push_back(std::move(fd));
        DataReader reader(std::move(files), layers, 1 << 20);
        walk_everything(index, &reader);
    } catch (const Error& error) {
        // One finished line.
        return std::string(error.what()).find('\n') == std::string::npos;
    }
    return true;
}

/// Changes bits and bytes at random from `first` on (metadata stands after the data) and reads the result.
void mutate(const std::string& image, size_t first, int rounds, uint32_t seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < rounds; ++round) {
        std::string bytes = image;
        for (uint32_t i = random() % 4 + 1; i > 0; --i) {
            size_t at = random() % 10 == 0 ? random() % 96 : first + random() % (bytes.size() - first);
            if (random() % 2)
                bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
            else
                bytes[at] = static_cast<char>(random());
        }
        if (random() % 20 == 0) bytes.resize(random() % bytes.size());
        INFO("round " << round << " of seed " << seed);
        REQUIRE(survives(bytes));
    }
}

uint64_t inode_table_of(const std::string& image) {
    uint64_t at = 0;
    std::memcpy(&at, image.data() + 64, sizeof at);
    return at;
}

}  // namespace

TEST_CASE("images of every compressor and option read as their source", "[squash]") {
    if (!have_mksquashfs()) return;
    TempFolder temp;
    make_sample_tree(temp / "tree");
    const std::string zstd = "-comp zstd -Xcompression-level 1";
    const std::string plain = " -noI -noD -noF -noX -noId";
    for (const std::string& options :
         {std::string("-comp gzip -Xcompression-level 1"), zstd, std::string("-comp lz4"), std::string("-comp xz"),
          std::string("-comp lzo -Xalgorithm lzo1x_1"), zstd + " -no-fragments", zstd + plain,
          zstd + " -b 1M -always-use-fragments", std::string("-comp lz4 -noD"), std::string("-comp lz4 -noI -noF"),
          std::string("-comp lz4 -b 4096"), std::string("-comp lz4 -no-sparse -no-exports"),
          std::string("-comp lz4 -b 64K -tailends")}) {
        INFO(options);
        make_image(temp / "tree", temp / "image", options);
        Opened opened = open_image(temp / "image");
        require_same(opened, temp / "tree");
        REQUIRE(opened.index.has_xattrs());
    }
}

TEST_CASE("an image with devices and xattrs of every kind keeps user.* alone", "[squash]") {
    if (!have_mksquashfs()) return;
    TempFolder temp;
    std::filesystem::create_directories(temp / "tree");
    make_image(temp / "tree", temp / "image",
               "-p '/null c 666 0 0 1 3' -p '/disk b 600 0 0 259 70000' -p 'plain d 700 12345 54321'");
    Opened opened = open_image(temp / "image");
    auto null = opened.index.inode(at_path(opened.index, "null"));
    REQUIRE(null);
    CHECK(null->mode == (S_IFCHR | 0666));
    CHECK(null->rdev == 0x103);
    CHECK(opened.index.inode(at_path(opened.index, "disk"))->rdev != 0);
    CHECK(opened.index.inode(at_path(opened.index, "plain"))->uid == 12345);
    CHECK(opened.index.inode(at_path(opened.index, "plain"))->gid == 54321);
    CHECK_FALSE(opened.index.has_xattrs());
}

TEST_CASE("what is no readable squashfs file is refused with the reason", "[squash]") {
    if (!have_mksquashfs()) return;
    std::string image = small_image("-comp gzip");
    CHECK(problem_of(image) == "no problem");
    CHECK_THAT(problem_of("short"), Catch::Contains("too short"));
    CHECK_THAT(problem_of(std::string(1000, 'x')), Catch::Contains("not a squashfs file"));
    CHECK_THAT(problem_of(patched<uint16_t>(image, 28, 3)), Catch::Contains("version 3.0 is not supported"));
    CHECK_THAT(problem_of(patched<uint16_t>(image, 20, 2)), Catch::Contains("lzma, which is not supported"));
    CHECK_THAT(problem_of(patched<uint16_t>(image, 20, 9)), Catch::Contains("unknown codec 9"));
    CHECK_THAT(problem_of(patched<uint32_t>(image, 12, 131073)), Catch::Contains("block size"));
    CHECK_THAT(problem_of(patched<uint64_t>(image, 64, 1ULL << 60)), Catch::Contains("inode table is outside"));
    CHECK_THAT(problem_of(patched<uint64_t>(image, 32, ~0ULL)), Catch::Contains("past"));
    CHECK_THAT(problem_of(patched<uint32_t>(image, 4, 3)), Catch::Contains("more inodes"));
    CHECK_THAT(problem_of(image.substr(0, image.size() / 2)), Catch::Contains("bytes but should have"));
}

TEST_CASE("limits bound the inodes, the depth and the memory of an image", "[squash]") {
    if (!have_mksquashfs()) return;
    std::string image = small_image("-comp gzip");
    CHECK_THAT(problem_of(image, {.inodes = 10}), Catch::Contains("limit of 10"));
    CHECK_THAT(problem_of(image, {.depth = 3}), Catch::Contains("more than 3 deep"));
    CHECK_THAT(problem_of(image, {.metadata_bytes = 5000}), Catch::Contains("larger than the limit"));
}

TEST_CASE("hostile names and shapes in directories are refused", "[squash]") {
    if (!have_mksquashfs()) return;
    TempFolder temp;
    std::filesystem::create_directories(temp / "tree/aaaa/inner");
    std::filesystem::create_directories(temp / "tree/bbbb");
    make_image(temp / "tree", temp / "image", "-noI -noD -noF -noX -noId");
    std::string image = read_file(temp / "image");
    REQUIRE(problem_of(image) == "no problem");
    auto renamed = [&](const std::string& from, const std::string& to) {
        std::string bytes = image;
        return bytes.replace(bytes.find(from), from.size(), to);
    };
    CHECK_THAT(problem_of(renamed("aaaa", "a/.a")), Catch::Contains("impossible name"));
    CHECK_THAT(problem_of(renamed("aaaa", std::string("a\0aa", 4))), Catch::Contains("impossible name"));
    CHECK_THAT(problem_of(renamed("aaaa", "bbbb")), Catch::Contains("twice"));
    // The inode offset of "inner" is eight bytes before its name: point it at the root, so that the tree is a loop.
    uint64_t root = 0;
    std::memcpy(&root, image.data() + 32, sizeof root);
    std::string loop = patched<uint16_t>(image, image.find("inner") - 8, static_cast<uint16_t>(root));
    CHECK_THAT(problem_of(loop), Catch::Contains("in the tree twice"));
}

TEST_CASE("hostile row 48: no change of an image's bytes does more than make it unreadable", "[squash]") {
    if (!have_mksquashfs()) return;
    std::string packed = small_image("-comp gzip");
    mutate(packed, inode_table_of(packed), 500, 1);
    std::string plain = small_image("-comp zstd -noI -noD -noF -noX -noId");
    mutate(plain, inode_table_of(plain), 1500, 2);
    uint32_t seed = 3;
    for (const char* codec : {"zstd", "lz4", "xz", "lzo"}) {
        std::string image = small_image(cat("-comp ", codec));
        mutate(image, 96, 100, seed++);
    }
}
