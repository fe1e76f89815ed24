#include "runtime/squash/read/image_tree.hh"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/pull/export/import.hh"
#include "runtime/pull/progress/progress.hh"
#include "tests/catch.hh"
#include "tests/fixtures/sif_file.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;
using berth::fixtures::SifPart;
using Catch::Contains;

namespace {

/// A SIF file of squashfs images, the first of them the system's.
struct SifScene {
    TempFolder folder;
    std::vector<SifPart> parts;
    std::string data;

    /// `pseudo`: options of mksquashfs for what only root could make in a folder.
    SifScene& add(const std::string& name, const std::vector<std::pair<std::string, std::string>>& files,
                  const std::string& pseudo = "", const std::string& opaque = "") {
        std::string root = folder / name;
        for (const auto& [path, content] : files) {
            std::filesystem::create_directories(std::filesystem::path(root + "/" + path).parent_path());
            test::write_file(root + "/" + path, content);
        }
        if (!opaque.empty())
            REQUIRE(::setxattr((root + "/" + opaque).c_str(), "user.overlay.opaque", "y", 1, 0) == 0);
        make_image(root, folder / (name + ".sqsh"), "-all-root " + pseudo);
        std::string image = sys::read_file(folder / (name + ".sqsh"), 1 << 24);
        parts.push_back({.offset = static_cast<int64_t>(32768 + data.size()),
                         .size = static_cast<int64_t>(image.size()),
                         .role = parts.empty() ? 2 : 4});
        data += image;
        return *this;
    }
    std::string path() const {
        test::write_file(folder / "x.sif", fixtures::sif(parts, data));
        return folder / "x.sif";
    }
    Opened opened() const {
        Fd file = sys::open_file(path(), O_RDONLY);
        ImageTree read = read_image_file(file.get(), "x.sif");
        std::vector<LayerInfo> layers = read.layers;
        return {Index::from_bytes(build_index(read.tree, layers, {})),
                DataReader(for_each_layer(std::move(file), layers.size()), layers, 1 << 20)};
    }
};

/// The content of a file, or a word for what is none.
std::string seen_in(Opened& opened, const std::string& path) {
    uint32_t number = at_path(opened.index, path);
    if (number == 0) return "nothing";
    return opened.index.file(number) ? content_of(opened, number) : "no file";
}

SifScene& image_with_overlays(SifScene& scene) {
    std::string big(300'000, 'b');
    return scene.add("base", {{"kept", big}, {"twice", "base"}, {"gone", "x"}, {"dir/old", "x"}, {"other/old", "old"}})
        .add("first", {{"twice", "first"}, {"dir/new", "new"}, {"other/new", "new"}, {"only/first", "1"}},
             "-p 'gone c 0 0 0 0 0'", "dir")
        .add("second", {{"twice", "second"}, {"gone2", "x"}}, "-p 'only c 0 0 0 0 0'");
}

}  // namespace

TEST_CASE("overlay partitions of a SIF file lie over the image, the later ones above", "[squash]") {
    if (!have_mksquashfs()) return;
    SifScene scene;
    Opened opened = image_with_overlays(scene).opened();
    CHECK(seen_in(opened, "kept") == std::string(300'000, 'b'));
    CHECK(seen_in(opened, "twice") == "second");
    CHECK(seen_in(opened, "gone") == "nothing");
    CHECK(seen_in(opened, "dir/old") == "nothing");
    CHECK(seen_in(opened, "dir/new") == "new");
    CHECK(seen_in(opened, "other/old") + seen_in(opened, "other/new") == "oldnew");
    CHECK(seen_in(opened, "only") == "nothing");
    CHECK(seen_in(opened, "gone2") == "x");
}

TEST_CASE("an overlay partition of another group than the image's is none of it", "[squash]") {
    if (!have_mksquashfs()) return;
    SifScene scene;
    image_with_overlays(scene);
    constexpr uint32_t mark = 0xf0000000;
    scene.parts[0].group = mark | 1, scene.parts[1].group = mark | 1, scene.parts[2].group = mark | 2;
    Opened opened = scene.opened();
    CHECK(seen_in(opened, "twice") + seen_in(opened, "only/first") == "first1");
}

TEST_CASE("berth import makes one squashfs of an image and its overlay partitions", "[squash]") {
    if (!have_mksquashfs()) return;
    SifScene scene;
    image_with_overlays(scene);
    Fd file = sys::open_file(scene.path(), O_RDONLY);
    pull::Meter meter("x.sif");
    pull::import_file(file.get(), scene.path(), scene.folder / "out.sqsh", {}, meter);
    fixtures::Squashfs made(scene.folder / "out.sqsh");
    CHECK(made.content("twice") + made.content("dir/new") + made.content("other/old") == "secondnewold");
    CHECK(made.line("gone") + made.line("dir/old") + made.line("only") == "");
}

TEST_CASE("hostile: overlay partitions of SIF files", "[squash][hostile]") {
    if (!have_mksquashfs()) return;
    SifScene scene;
    image_with_overlays(scene);
    auto refused = [&](const std::string& why) { CHECK_THROWS_WITH(scene.opened(), Contains(why)); };
    SECTION("a kind that is not read") { scene.parts[1].file_system = 2, refused("overlay partition (ext3)"); }
    SECTION("outside of the file") { scene.parts[2].size = INT64_MAX, refused("overlay partition is not within"); }
    SECTION("no squashfs") { scene.parts[2].offset = 1000, scene.parts[2].size = 400, refused("squashfs"); }
    SECTION("the image itself") { scene.parts[1] = scene.parts[0], scene.parts[1].role = 4, scene.opened(); }
    SECTION("very many") { scene.parts.resize(18, scene.parts[1]), refused("more than 16 overlay partitions"); }
    SECTION("names that would be whiteouts") { scene.add("third", {{".wh.kept", ""}}), refused("begins with .wh."); }
}
