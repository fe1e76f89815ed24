#include "runtime/squash/read/extract_tree.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;

namespace {

struct Scene {
    TempFolder folder;
    std::string image = folder / "image", out = folder / "out";
    Fd directory;

    Scene() {
        make_sample_tree(folder / "in", true);
        make_image(folder / "in", image, "-comp zstd -b 128K");
        fs::create_directory(out);
        directory = sys::open_file(out, O_RDONLY | O_DIRECTORY);
    }
};

}  // namespace

TEST_CASE("an extracted image is like the folder that it was made of", "[squash]") {
    if (!have_mksquashfs()) return;
    Scene scene;
    Opened opened = open_image(scene.image);
    uint64_t last = 0, whole = 0;
    extract_tree(opened.index, opened.reader, scene.directory.get(), 3, "the image",
                [&](uint64_t done, uint64_t total) { last = done, whole = total; });
    require_same(opened, scene.out);
    CHECK(last == whole);
    CHECK(last > 0);
}

TEST_CASE("FIFOs of an extracted image have the image's mode, whatever the caller's umask", "[squash]") {
    TempFolder folder;
    Fd layer = folder.create("layer");
    LayerWriter writer(layer.get(), {});
    writer.add_special("pipe", {.mode = 0666}, S_IFIFO);
    writer.add_special("socket", {.mode = 0622}, S_IFSOCK);
    writer.finish();
    Opened opened = open_image(folder / "layer");
    fs::create_directory(folder / "out");
    Fd out = sys::open_file(folder / "out", O_RDONLY | O_DIRECTORY);
    mode_t before = ::umask(077);
    extract_tree(opened.index, opened.reader, out.get(), 1, "the image");
    ::umask(before);
    for (auto [name, mode] : {std::pair("pipe", 0666U), std::pair("socket", 0622U)}) {
        struct stat st {};
        REQUIRE(::fstatat(out.get(), name, &st, AT_SYMLINK_NOFOLLOW) == 0);
        CHECK((st.st_mode & 07777U) == mode);
    }
}

TEST_CASE("an image that cannot be read is not extracted", "[squash]") {
    if (!have_mksquashfs()) return;
    Scene scene;
    Opened opened = open_image(scene.image);
    Fd file = sys::open_file(scene.image, O_RDWR);
    auto block = opened.index.file(at_path(opened.index, "block")).value();
    REQUIRE(::pwrite(file.get(), "garbage", 7, static_cast<off_t>(block.start)) == 7);
    CHECK_THROWS_WITH(extract_tree(opened.index, opened.reader, scene.directory.get(), 1, "the image"),
                      Catch::Contains("extracting the image: block is damaged"));
}
