#include <functional>

#include "runtime/base/text.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using fixtures::Squashfs;
using fixtures::TempFolder;
using test::noise;
using test::prose;

namespace {

void add_file(LayerWriter& writer, std::string_view path, std::string_view content) {
    writer.begin_file(path, {.mode = 0644});
    writer.append(content);
    writer.end_file();
}

struct Made {
    std::string path;
    uint64_t size;
};

Made make(const TempFolder& folder, const std::function<void(LayerWriter&)>& fill, const Compression& compression = {},
          const PoolLimits& limits = {.threads = 3, .buffers = 12}) {
    static unsigned count = 0;
    std::string name = cat("image", count++);
    Fd fd = folder.create(name);
    CompressorPool pool(compression, limits);
    LayerWriter writer(fd.get(), &pool);
    fill(writer);
    writer.finish();
    return {folder / name, std::filesystem::file_size(folder / name)};
}

}  // namespace

TEST_CASE("blocks: a file that is there already takes no space, wherever it stands", "[squash]") {
    TempFolder folder;
    std::string big = noise(1'000'000, 1), other = noise(900'000, 2), small = noise(70'000, 3);
    auto fill = [&](unsigned copies) {
        return make(folder, [&](LayerWriter& writer) {
            for (unsigned i = 0; i < copies; ++i) {
                add_file(writer, cat("big", i), big);
                add_file(writer, cat("small", i), small);
                add_file(writer, cat("other", i), other);
                // Many fragments between a tail and its copy.
                for (unsigned j = 0; j < 30; ++j) add_file(writer, cat("filler", j), noise(100'000, 10 + j));
            }
        });
    };
    Made once = fill(1), thrice = fill(3);
    CHECK(thrice.size < once.size + 4096);
    Squashfs image(thrice.path);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK((image.content(cat("big", i)) == big));
        CHECK((image.content(cat("small", i)) == small));
        CHECK((image.content(cat("other", i)) == other));
    }
}

TEST_CASE("blocks: files that are nearly the same stay apart", "[squash]") {
    TempFolder folder;
    std::string one = noise(400'000, 1), first = one, last = one, longer = one + "x";
    first[0] ^= 1;
    last.back() ^= 1;
    Squashfs image(make(folder, [&](LayerWriter& writer) {
                       for (auto& [name, content] :
                            std::map<std::string, std::string>{{"first", first},
                                                               {"last", last},
                                                               {"longer", longer},
                                                               {"one", one},
                                                               {"three", one.substr(0, 393'216)}})
                           add_file(writer, name, content);
                   }).path);
    CHECK((image.content("one") == one));
    CHECK((image.content("first") == first));
    CHECK((image.content("last") == last));
    CHECK((image.content("longer") == longer));
    CHECK((image.content("three") == one.substr(0, 393'216)));
}

TEST_CASE("blocks: holes at every place of a file are kept and cost nothing", "[squash]") {
    TempFolder folder;
    constexpr size_t block = 128 * 1024;
    std::map<std::string, std::string> files = {
        {"all", std::string(3 * block, '\0')},
        {"tail", noise(block, 1) + std::string(1000, '\0')},
        {"head", std::string(block, '\0') + noise(500, 2)},
        {"middle", noise(block, 1) + std::string(2 * block, '\0') + noise(block, 3)},
        {"short", std::string(7, '\0')},
    };
    Made made = make(folder, [&](LayerWriter& writer) {
        for (auto& [name, content] : files) add_file(writer, name, content);
        writer.begin_file("cut", {.mode = 0644});
        writer.append("a");
        writer.append_zeros(2 * block);
        writer.append("b");
        writer.append_zeros(block - 2);
        writer.end_file();
    });
    CHECK(made.size < 3 * block + 8192);
    Squashfs image(made.path);
    for (auto& [name, content] : files) CHECK((image.content(name) == content));
    CHECK((image.content("cut") == "a" + std::string(2 * block, '\0') + "b" + std::string(block - 2, '\0')));
}

TEST_CASE("blocks: many files through one pool are each as if they were alone", "[squash]") {
    TempFolder folder;
    auto fill = [](LayerWriter& writer, unsigned seed) {
        for (unsigned i = 0; i < 40; ++i)
            add_file(writer, cat("f", i),
                     i % 2 == 0 ? prose(i * 20'000 + 1, seed + i) : noise(i * 7'000, seed + i % 5));
    };
    CompressorPool pool({}, {.threads = 4, .buffers = 9});
    {
        std::vector<std::jthread> writers;
        for (unsigned n = 0; n < 4; ++n)
            writers.emplace_back([&, n] {
                Fd fd = folder.create(cat("shared", n));
                LayerWriter writer(fd.get(), &pool);
                fill(writer, n * 100);
                writer.finish();
            });
    }
    for (unsigned n = 0; n < 4; ++n) {
        Made alone = make(folder, [&](LayerWriter& writer) { fill(writer, n * 100); });
        CHECK((sys::read_file(alone.path, SIZE_MAX) == sys::read_file(folder / cat("shared", n), SIZE_MAX)));
    }
}

TEST_CASE("blocks: writers that are given up leave the pool as it was", "[squash]") {
    TempFolder folder;
    CompressorPool pool({}, {.threads = 2, .buffers = 5});
    for (unsigned i = 0; i < 20; ++i) {
        Fd fd = folder.create(cat("given-up", i));
        LayerWriter writer(fd.get(), &pool);
        add_file(writer, "a", noise(1'000'000, i));
        writer.begin_file("b", {});
        writer.append({noise(300'000, i + 1).data(), 300'000});
    }
    Fd fd = folder.create("whole");
    LayerWriter writer(fd.get(), &pool);
    add_file(writer, "a", noise(1'000'000, 1));
    writer.finish();
    CHECK((Squashfs(folder / "whole").content("a") == noise(1'000'000, 1)));
}

TEST_CASE("blocks: every codec and level is read by unsquashfs and by the own reader", "[squash]") {
    TempFolder folder;
    std::map<std::string, std::string> files = {{"prose", prose(700'000, 1)},
                                                {"noise", noise(300'000, 2)},
                                                {"small", "x"},
                                                {"empty", ""},
                                                {"again", prose(700'000, 1)}};
    auto fill = [&](LayerWriter& writer) {
        for (auto& [name, content] : files) add_file(writer, name, content);
    };
    std::map<Codec, uint64_t> sizes;
    for (auto [codec, level] : std::vector<std::pair<Codec, unsigned>>{{Codec::zstd, 0},
                                                                       {Codec::zstd, 19},
                                                                       {Codec::lz4, 0},
                                                                       {Codec::lz4, 12},
                                                                       {Codec::gzip, 0},
                                                                       {Codec::gzip, 9},
                                                                       {Codec::none, 0}}) {
        for (uint32_t block_size : {4096U, 131'072U, 1'048'576U}) {
            INFO("codec " << static_cast<int>(codec) << ", level " << level << ", blocks of " << block_size);
            Made made = make(folder, fill, {codec, level}, {.threads = 2, .buffers = 6, .block_size = block_size});
            if (level == 0 && block_size == 131'072) sizes[codec] = made.size;
            Squashfs image(made.path);
            test::Opened opened = test::open_image(made.path);
            for (auto& [name, content] : files) {
                CHECK((image.content(name) == content));
                CHECK((test::content_of(opened, opened.index.lookup(1, name)) == content));
            }
        }
    }
    CHECK(sizes[Codec::zstd] < sizes[Codec::lz4]);
    CHECK(sizes[Codec::lz4] < sizes[Codec::none]);
    CHECK(sizes[Codec::none] > 1'000'000);
}

TEST_CASE("blocks: a program is stored as it is, its end too", "[squash]") {
    TempFolder folder;
    auto stored_with = [&](uint32_t mode, const std::string& start, uint64_t size) {
        std::string content = start + prose(300'000, 1);
        Made made = make(folder, [&](LayerWriter& writer) {
            writer.begin_file("file", {.mode = mode}, size == 0 ? 0 : size + content.size());
            writer.append(content);
            writer.end_file();
        });
        CHECK(Squashfs(made.path).content("file") == content);
        return made.size > content.size();
    };
    const std::string elf = "\177ELF";
    CHECK(stored_with(0755, elf, 1));
    CHECK(stored_with(0100, elf, 1));
    CHECK_FALSE(stored_with(0644, elf, 1));
    CHECK_FALSE(stored_with(0755, "#!/bin/sh\n", 1));
    CHECK_FALSE(stored_with(0755, elf, 0));
    CHECK_FALSE(stored_with(0755, elf, largest_program));
}
