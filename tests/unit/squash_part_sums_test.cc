// What is read of a file of which sums were made is what was there then, or an error.
#include <sys/mman.h>

#include <cerrno>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/format/part_sums.hh"
#include "runtime/squash/read/image_tree.hh"
#include "tests/catch.hh"
#include "tests/fixtures/sif_file.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;
using Catch::Contains;

namespace {

constexpr uint64_t chunk = PartSums::chunk;

PartSums sums_of(const std::string& data, const std::vector<Extent>& places) {
    PartSums out{.key = random_sip_key(), .parts = {}, .content = "c"};
    for (const Extent& place : places) {
        out.parts.push_back({place, {}});
        out.add_sums(std::string_view(data).substr(place.offset, place.size), out.parts.back().sums);
    }
    return out;
}

std::string noise(size_t size) {
    std::string out;
    for (uint64_t i = 1; out.size() < size; i = i * 6364136223846793005 + 1442695040888963407)
        out += static_cast<char>(i >> 56);
    return out;
}

/// A file with parts.
struct Scene {
    TempFolder folder;
    std::string data = noise(5 * chunk + 100);
    std::vector<Extent> places{{10, 2 * chunk + 7}, {3 * chunk, chunk}, {4 * chunk + 50, 1}};
    PartSums sums = sums_of(data, places);
    Fd file = folder.create("x");

    Scene() { put(data, 0); }
    void put(std::string_view bytes, uint64_t at) const {
        REQUIRE(::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
                static_cast<ssize_t>(bytes.size()));
    }
    int read(uint64_t offset, size_t size, std::string* out = nullptr) const {
        std::string bytes(size, '\0');
        int result = sums.read(file.get(), bytes, offset);
        if (out != nullptr) *out = bytes;
        return result;
    }
    void flip(uint64_t at) const { put(std::string(1, static_cast<char>(data[at] ^ 1)), at); }
    void restore(uint64_t at) const { put(std::string_view(data).substr(at, 1), at); }
};

/// A SIF file with an image and an overlay, and the sums of both.
struct SifScene {
    TempFolder folder;
    std::string path = folder / "x.sif";
    PartSums sums;

    SifScene() {
        std::string data, parts[2];
        std::vector<fixtures::SifPart> descriptors;
        std::vector<Extent> places;
        for (int i = 0; i < 2; ++i) {
            std::string root = folder / cat("root", i);
            std::filesystem::create_directory(root);
            for (int number = 0; number < 40; ++number)
                test::write_file(cat(root, "/file", i, ".", number), noise(static_cast<size_t>(5000 * number + i)));
            make_image(root, folder / cat(i, ".sqsh"), "-all-root -noI");
            parts[i] = sys::read_file(folder / cat(i, ".sqsh"), 1 << 24);
            places.push_back({32768 + data.size(), parts[i].size()});
            descriptors.push_back({.offset = static_cast<int64_t>(places[i].offset),
                                   .size = static_cast<int64_t>(places[i].size),
                                   .role = i == 0 ? 2 : 4});
            data += parts[i];
        }
        std::string bytes = fixtures::sif(descriptors, data);
        test::write_file(path, bytes);
        sums = sums_of(bytes, places);
    }
    Opened opened() const {
        Fd file = sys::open_file(path, O_RDONLY);
        ImageTree read = read_image_file(file.get(), "x.sif", {}, &sums);
        return {Index::from_bytes(build_index(read.tree, read.layers, {})),
                DataReader(for_each_layer(std::move(file), read.layers.size()), read.layers, 1 << 20, {},
                           {.sums = std::make_shared<const PartSums>(sums)})};
    }
    /// Writes over a part, from a byte of it on.
    void spoil(size_t part, uint64_t from, uint64_t size) const {
        Fd file = sys::open_file(path, O_WRONLY);
        std::string other(size, 'X');
        REQUIRE(::pwrite(file.get(), other.data(), size, static_cast<off_t>(sums.parts[part].place.offset + from)) ==
                static_cast<ssize_t>(size));
    }
};

long read_of(Opened& opened, const std::string& name) {
    auto file = opened.index.file(at_path(opened.index, name));
    REQUIRE(file);
    std::string out(file->size, '\0');
    return opened.reader.read(*file, 0, out);
}

}  // namespace

TEST_CASE("parts of a file are read with their sums, at any place and of any length", "[squash]") {
    Scene scene;
    for (uint64_t from : {uint64_t{0}, uint64_t{1}, chunk - 1, chunk, chunk + 5, 2 * chunk, 2 * chunk + 6})
        for (size_t size : {size_t{1}, size_t{2}, size_t{chunk}, size_t{chunk + 1}, size_t{2 * chunk + 7}}) {
            CAPTURE(from, size);
            std::string out;
            bool fits = from + size <= scene.places[0].size;
            CHECK(scene.read(10 + from, size, &out) == (fits ? 0 : -EIO));
            if (fits) CHECK(out == scene.data.substr(10 + from, size));
        }
    CHECK(scene.read(3 * chunk, chunk) == 0);
    CHECK(scene.read(4 * chunk + 50, 1) == 0);
    CHECK(scene.read(0, 1) == -EIO);
    CHECK(scene.read(4 * chunk + 51, 1) == -EIO);
    CHECK(scene.read(UINT64_MAX, 2) == -EIO);
}

TEST_CASE("hostile: a byte that was changed is never read", "[squash]") {
    Scene scene;
    std::string out;
    for (uint64_t at : {uint64_t{10}, uint64_t{11}, chunk + 9, chunk + 10, 2 * chunk + 16, 3 * chunk, 4 * chunk + 50}) {
        CAPTURE(at);
        scene.flip(at);
        CHECK(scene.read(at, 1) == -EIO);
        scene.restore(at);
        CHECK(scene.read(at, 1, &out) == 0);
        CHECK(out[0] == scene.data[at]);
    }
    // By a mapping, after which nothing else is asked of the file.
    void* memory = ::mmap(nullptr, scene.data.size(), PROT_READ | PROT_WRITE, MAP_SHARED, scene.file.get(), 0);
    REQUIRE(memory != MAP_FAILED);
    static_cast<char*>(memory)[100] ^= 1;
    CHECK(scene.read(10, 1) == -EIO);
    static_cast<char*>(memory)[100] ^= 1;
    CHECK(scene.read(10, 1) == 0);
    ::munmap(memory, scene.data.size());
    // Chunks that change places, and a file that is cut off.
    scene.put(std::string_view(scene.data).substr(10 + chunk, chunk), 10);
    CHECK(scene.read(10, chunk) == -EIO);
    REQUIRE(::ftruncate(scene.file.get(), static_cast<off_t>(chunk)) == 0);
    CHECK(scene.read(10 + chunk, chunk) == -EIO);
}

TEST_CASE("sums go to another process as lines", "[squash]") {
    Scene scene;
    PartSums got;
    for (const std::string& line : split(scene.sums.text(), '\n'))
        if (!line.empty()) CHECK(got.take_line(line));
    CHECK(got.is_whole());
    CHECK(got.text() == scene.sums.text());
    CHECK(got.content == "c");
    std::swap(got, scene.sums);
    CHECK(scene.read(10, 2 * chunk + 7) == 0);
    for (const char* line : {"", "sums", "part 1", "part 1 x", "key 1", "sums 1 y", "other 1 2"}) {
        CAPTURE(line);
        PartSums none;
        CHECK_FALSE(none.take_line(line));
    }
    got.parts[1].sums.pop_back();
    CHECK_FALSE(got.is_whole());
    CHECK_FALSE(PartSums().is_whole());
}

TEST_CASE("hostile: a SIF file that is changed after its sums were made gives errors, never other bytes", "[squash]") {
    if (!have_mksquashfs()) return;
    SifScene scene;
    Opened opened = scene.opened();
    for (const char* name : {"file0.39", "file1.39", "file0.1"}) CHECK(read_of(opened, name) > 0);
    SECTION("the data of each partition") {
        Opened fresh = scene.opened();
        size_t part = GENERATE(0, 1);
        scene.spoil(part, 4096, 150'000);
        long failed = 0;
        for (int number = 1; number < 40; ++number) {
            long got = read_of(fresh, cat("file", part, ".", number));
            failed += got == -EIO;
            CHECK((got == -EIO || got == 5000 * number + static_cast<long>(part)));
        }
        CHECK(failed > 0);
        CHECK(read_of(fresh, cat("file", 1 - part, ".39")) > 0);
    }
    SECTION("the superblock, and the tables") {
        uint64_t from = GENERATE(0, 40, 1), part = GENERATE(0, 1);
        uint64_t size = scene.sums.parts[part].place.size;
        scene.spoil(part, from == 1 ? size - 200 : from, 8);
        CHECK_THROWS_WITH(scene.opened(), Contains("reading x.sif: it was changed since its signatures were verified"));
    }
    SECTION("header and descriptors, which are not looked at again") {
        Fd file = sys::open_file(scene.path, O_WRONLY);
        std::string nothing(32768, '\0');
        REQUIRE(::pwrite(file.get(), nothing.data(), nothing.size(), 0) == 32768);
        Opened again = scene.opened();
        CHECK(read_of(again, "file1.39") > 0);
    }
}
