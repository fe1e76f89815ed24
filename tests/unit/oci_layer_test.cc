#include <cstdlib>
#include <dirent.h>

#include <chrono>
#include <random>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/layer.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pack.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_builder.hh"

using namespace berth;
using namespace berth::oci;
using fixtures::TarBuilder;
using fixtures::TempFolder;

namespace {

ConvertedLayer converted(int fd, const std::string& blob, size_t step = 16384, const ConvertOptions& options = {}) {
    LayerConverter converter(fd, "layer x", options);
    for (size_t at = 0; at < blob.size(); at += std::min(step, blob.size() - at))
        converter.write(std::string_view(blob).substr(at, step));
    return converter.finish();
}

std::string noise(size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(random() % 40);
    return out;
}

std::string sample_tar() {
    TarBuilder tar;
    tar.directory("usr").directory("usr/bin").item({.name = "dev/null", .type = '3'});
    for (unsigned i = 0; i < 200; ++i) tar.file(cat("usr/bin/f", i), noise(i * 997, i));
    return tar.hardlink("usr/bin/link", "usr/bin/f7").finished();
}

size_t thread_count() {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

}  // namespace

TEST_CASE("layer: digests, sizes and content, whatever the compression and the pieces", "[layer]") {
    TempFolder folder;
    std::string tar = sample_tar(), bytes;
    for (const std::string& blob : {tar, fixtures::gzip(tar), fixtures::zstd(tar)}) {
        for (size_t step : {size_t{777}, size_t{16384}, std::string::npos}) {
            Fd fd = folder.create("layer");
            ConvertedLayer layer = converted(fd.get(), blob, step);
            CHECK(layer.digest == sha256_of(blob));
            CHECK(layer.diff_id == sha256_of(tar));
            CHECK(layer.compressed_size == blob.size());
            CHECK(layer.unpacked_size == tar.size());
            CHECK(layer.skipped_devices == 1);
            CHECK(layer.entries == 204);
            std::string made = fixtures::Squashfs(folder / "layer").bytes();
            if (bytes.empty()) bytes = made;
            CHECK((made == bytes));
        }
    }
    fixtures::Squashfs layer(folder / "layer");
    CHECK((layer.content("usr/bin/f199") == noise(199 * 997, 199)));
    CHECK((layer.content("usr/bin/link") == noise(7 * 997, 7)));
}

TEST_CASE("layer: an empty blob is an empty layer", "[layer]") {
    TempFolder folder;
    Fd fd = folder.create("layer");
    CHECK(converted(fd.get(), "").entries == 1);
    CHECK_THAT(fixtures::Squashfs(folder / "layer").listing(), Catch::StartsWith("drwxr-xr-x 0/0"));
}

TEST_CASE("layer: a directory without an entry of its own keeps the lower layer's attributes in the merge", "[layer]") {
    TempFolder folder;
    Fd lower = folder.create("lower"), upper = folder.create("upper");
    converted(lower.get(), TarBuilder().directory("tmp", 01777).directory("opt", 0700).finished());
    converted(upper.get(),
              TarBuilder().file("tmp/x", "x").directory("opt", 0711).file("opt/y", "y").file("new/z", "z").finished());
    std::vector<squash::LayerInfo> infos(2);
    std::vector<squash::Tree> trees;
    trees.push_back(squash::read_tree(lower.get(), "lower", 0, infos[0]));
    trees.push_back(squash::read_tree(upper.get(), "upper", 1, infos[1]));
    squash::Index index = squash::Index::from_bytes(squash::build_index(squash::merge(std::move(trees)), infos, {}));
    auto mode = [&](const char* name) { return index.inode(index.lookup(1, name))->mode & 07777; };
    CHECK(mode("tmp") == 01777);
    CHECK(mode("opt") == 0711);
    CHECK(mode("new") == 0755);
    CHECK(index.entry_count(index.lookup(1, "tmp")) == 1);
}

TEST_CASE("layer: errors name the layer and reach the caller", "[layer]") {
    TempFolder folder;
    std::string tar = sample_tar(), packed = fixtures::gzip(tar);
    auto fails = [&](const std::string& blob, const char* why, const ConvertOptions& options = {}) {
        Fd fd = folder.create("layer");
        CHECK_THROWS_WITH(converted(fd.get(), blob, 16384, options),
                          Catch::StartsWith("unpacking layer x: ") && Catch::Contains(why));
    };
    fails(packed.substr(0, packed.size() / 2), "cut off");
    fails(packed + "garbage", "followed by bytes");
    fails(tar.substr(0, 5000), "cut off");
    fails(std::string(100'000, 'x'), "checksum of a header");
    fails("<html>", "cut off");
    fails(packed, "unpacks to more than", {.limits = {.unpacked_bytes = 1'000'000}, .pool = nullptr});
    fails(TarBuilder().file("../x", "").finished(), "leads out of the image");
}

TEST_CASE("layer: a failure stops a caller that would go on for ever, and is told each time", "[layer]") {
    TempFolder folder;
    Fd fd = folder.create("layer");
    LayerConverter converter(fd.get(), "layer x");
    std::string junk(1 << 20, 'x');
    auto feed = [&] {
        for (int i = 0; i < 1000; ++i) converter.write(junk);
    };
    CHECK_THROWS_AS(feed(), Error);
    CHECK_THROWS_AS(converter.write("x"), Error);
    CHECK_THROWS_AS(converter.finish(), Error);
}

TEST_CASE("layer: a full disk is named and keeps its errno", "[layer]") {
    TempFolder folder;
    std::string tar = TarBuilder().file("big", noise(20 << 20, 1)).finished();
    auto mounted = fixtures::run_command("mkdir '" + folder / "small" + "' && mount -t tmpfs -o size=1m none '" +
                                         folder / "small" + "'");
    if (mounted.status != 0) {
        if (std::getenv("BERTH_MUST_RUN") != nullptr) FAIL(mounted.output);
        WARN("no right to mount a small tmpfs: /dev/full stands in for it");
        Fd full(::open("/dev/full", O_RDWR | O_CLOEXEC));
        CHECK_THROWS_WITH(LayerConverter(full.get(), "layer x"), Catch::Contains("No space left on device"));
        return;
    }
    int number = 0;
    std::string line;
    try {
        Fd fd = folder.create("small/layer");
        converted(fd.get(), tar);
    } catch (const SysError& error) {
        number = error.number();
        line = error.what();
    }
    CHECK(fixtures::run_command("umount '" + folder / "small" + "'").status == 0);
    CHECK(number == ENOSPC);
    CHECK_THAT(line, Catch::StartsWith("unpacking layer x: ") && Catch::EndsWith(": No space left on device"));
}

TEST_CASE("layer: abandoning a conversion is quick and leaves no thread", "[layer]") {
    TempFolder folder;
    size_t before = thread_count();
    std::string hole = TarBuilder()
                           .pax({{"GNU.sparse.major", "1"}, {"GNU.sparse.realsize", cat(1ULL << 39)}})
                           .file("a", std::string("0\n", 2) + std::string(510, '\0'))
                           .finished();
    std::string half = sample_tar().substr(0, 3'000'000);
    for (const std::string& blob : {std::string(), half, hole}) {
        auto start = std::chrono::steady_clock::now();
        {
            Fd fd = folder.create("layer");
            LayerConverter converter(fd.get(), "layer x");
            converter.write(blob);
        }
        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
        CHECK(thread_count() == before);
    }
}

TEST_CASE("hostile row 14: gigabytes of zeros in megabytes are converted in bounded memory", "[layer][hostile]") {
    TempFolder folder;
    Fd fd = folder.create("layer");
    constexpr uint64_t size = 1ULL << 30;
    auto resident = []() -> uint64_t {
        std::string statm = sys::read_file("/proc/self/statm");
        return std::stoull(split(statm, ' ')[1]) * 4096;
    };
    // One gzip member a piece: 1 GiB of a file, without ever being here as a whole.
    std::string piece = fixtures::gzip(std::string(64 << 20, '\0'), 1);
    std::string header = TarBuilder().item({.name = "zeros", .size_field = TarBuilder::number(size, 12)}).bytes();
    uint64_t before = resident(), most = before;
    LayerConverter converter(fd.get(), "layer x");
    std::string first = fixtures::gzip(header), last = fixtures::gzip(std::string(1024, '\0'));
    converter.write(first);
    for (uint64_t i = 0; i < size / (64 << 20); ++i) {
        converter.write(piece);
        most = std::max(most, resident());
    }
    converter.write(last);
    CHECK(converter.finish().unpacked_size == size + 1536);
    most = std::max(most, resident());
    CHECK(most - before < 64 << 20);
    CHECK(std::filesystem::file_size(folder / "layer") < 1 << 20);
    CHECK_THAT(fixtures::Squashfs(folder / "layer").line("zeros"), Catch::Contains(cat(size)));
}
