// Damage in a store while nobody verifies it: what is read is right, or an error.
#include <sys/stat.h>

#include <map>
#include <random>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/store/names.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/squash_support.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::squash::test;
using fixtures::ServedLayer;
using fixtures::TarBuilder;

namespace {

const std::string damaged = "damaged";

/// Files of every way to be stored: in blocks packed and plain, with holes, in fragments.
std::string base_tar() {
    TarBuilder tar;
    tar.directory("etc/").directory("many/").symlink("link", "etc/passwd");
    tar.file("prose", prose(200'000, 1))
        .file("noise", noise(150'000, 2))
        .file("hole", std::string(200'000, 0) + noise(70'000, 3));
    tar.pax({{"SCHILY.xattr.user.mark", "value"}})
        .file("etc/passwd", "root:x:0:0::/:/bin/sh\n")
        .hardlink("etc/again", "etc/passwd");
    for (uint32_t i = 0; i < 300; ++i) tar.file(cat("many/", i), prose(i * 10, i));
    return tar.finished();
}

/// The image in a store, and the one bit of one of its files that is wrong at the time.
struct Scene {
    fixtures::TempFolder folder;
    test::Content content;
    test::Server server{[this](const test::HttpCall& call) { return content.answer(call); }};
    std::vector<ServedLayer> layers{
        ServedLayer(base_tar()),
        ServedLayer(TarBuilder().file("many/7", noise(5000, 7)).file("many/.wh.8", "").finished())};
    std::string digest = fixtures::serve_image(content, layers);
    store::Store store = store::Store::open(folder / "store");

    Scene() { pull(); }
    void pull() {
        content.tag("1", digest);
        pull::pull(store, plan::parse_reference(server.host() + "/a:1"), {}, [](const std::string&) {});
        for (const std::string& path : {layer(0), layer(1), index()}) ::chmod(path.c_str(), 0600);
    }
    std::string layer(size_t i) const {
        return cat(store.path(), "/layers/", store::layer_file_name(layers[i].diff_id));
    }
    std::string index() const { return cat(store.path(), "/images/", digest.substr(7), "/index"); }

    static void flip(const std::string& path, uint64_t bit) {
        Fd file = sys::open_file(path, O_RDWR);
        char byte = 0;
        REQUIRE(::pread(file.get(), &byte, 1, static_cast<off_t>(bit / 8)) == 1);
        byte = static_cast<char>(byte ^ 1 << bit % 8);
        REQUIRE(::pwrite(file.get(), &byte, 1, static_cast<off_t>(bit / 8)) == 1);
    }

    Opened open(size_t cache_bytes = 1 << 20) const {
        Fd file = store.open_index(Digest(digest));
        squash::Index opened = squash::Index::open(file.get(), "index");
        std::vector<Fd> files = store.open_layers(opened);
        std::vector<squash::LayerInfo> about = opened.layers();
        return {std::move(opened), squash::DataReader(std::move(files), about, cache_bytes)};
    }
};

using Tree = std::map<std::string, std::string>;

std::string description(Opened& opened, uint32_t number) {
    auto inode = opened.index.inode(number).value();
    std::string out = cat(inode.mode, " ", inode.nlink, " ", inode.size, " ", inode.mtime, "\n");
    for (std::string_view name : opened.index.xattr_names(number))
        out += cat(name, "=", *opened.index.xattr(number, name), "\n");
    if (S_ISLNK(inode.mode)) out += opened.index.symlink_target(number).value();
    if (S_ISREG(inode.mode)) out += content_of(opened, number);
    return out;
}

/// All of the image as a reader of files sees it: each path with its description, or "damaged" where an access fails.
void walk(Opened& opened, uint32_t number, const std::string& path, Tree& out) try {
    out[path] = damaged;
    out[path] = description(opened, number);
    if (!S_ISDIR(opened.index.inode(number)->mode)) return;
    for (uint32_t i = 0; i < opened.index.entry_count(number); ++i) {
        auto entry = opened.index.entry(number, i).value();
        std::string name(entry.name);
        try {
            if (opened.index.lookup(number, name) != entry.inode) out[path + "/" + name] = "another inode by its name";
        } catch (const Error&) {
        }
        walk(opened, entry.inode, path + "/" + name, out);
    }
} catch (const Error&) {
    out[path] = damaged;
}

Tree all_of(Opened opened) {
    Tree out;
    walk(opened, 1, "", out);
    return out;
}

/// The first path that is neither as in `truth` nor damaged; the paths below a directory that could not be listed may
/// be missing.
std::string wrong_path(const Tree& truth, const Tree& found) {
    for (const auto& [path, text] : found)
        if (text != damaged && (!truth.contains(path) || truth.at(path) != text)) return path + " is wrong";
    for (const auto& [path, text] : truth) {
        std::string above = path;
        while (!found.contains(above)) above.resize(above.rfind('/'));
        if (above != path && found.at(above) != damaged) return path + " is missing";
    }
    return {};
}

size_t count_damaged(const Tree& tree) {
    return static_cast<size_t>(
        std::count_if(tree.begin(), tree.end(), [](const auto& item) { return item.second == damaged; }));
}

}  // namespace

TEST_CASE("hostile row 48: 500 flipped bits in layers and index: each read is right or an error", "[pull]") {
    Scene scene;
    Tree truth = all_of(scene.open());
    REQUIRE(truth.size() == 308);
    REQUIRE(count_damaged(truth) == 0);
    std::mt19937 random(48);
    size_t noticed = 0, rebuilt = 0;
    for (int round = 0; round < 500; ++round) {
        std::string path = round % 2 ? scene.index() : scene.layer(round % 20 == 0);
        uint64_t bit = random() % (fs::file_size(path) * 8);
        CAPTURE(path, bit);
        Scene::flip(path, bit);
        try {
            Tree found = all_of(scene.open());
            REQUIRE(wrong_path(truth, found) == "");
            noticed += count_damaged(found) > 0;
            Scene::flip(path, bit);
        } catch (const Error&) {
            // An index that cannot be opened is made anew by whoever starts the image.
            REQUIRE(path == scene.index());
            REQUIRE(pull::is_complete(scene.store, Digest(scene.digest)));
            REQUIRE(all_of(scene.open()) == truth);
            ::chmod(path.c_str(), 0600);
            ++rebuilt;
        }
    }
    // The rest went to what no reader looks at: the tables of the layers, padding, blocks that an upper layer hides.
    CHECK(noticed > 350);
    CHECK(rebuilt > 2);
}

TEST_CASE("an index of another version is made anew, but not from damaged tables", "[pull]") {
    Scene scene;
    Tree truth = all_of(scene.open());
    // A field of the header that its hash covers.
    Scene::flip(scene.index(), 8 * 8);
    SECTION("whole layers") {
        CHECK(pull::is_complete(scene.store, Digest(scene.digest)));
    }
    SECTION("a damaged layer is fetched again") {
        // The tables of the squashfs stand between the last block and the sums.
        Scene::flip(scene.layer(0), (fs::file_size(scene.layer(0)) - 128 - 24 * 20) * 8);
        CHECK_FALSE(pull::is_complete(scene.store, Digest(scene.digest)));
        CHECK_FALSE(fs::exists(scene.layer(0)));
        scene.pull();
    }
    SECTION("a layer of an older berth has no sums") {
        fs::resize_file(scene.layer(0), fs::file_size(scene.layer(0)) - 128);
        CHECK(pull::is_complete(scene.store, Digest(scene.digest)));
    }
    CHECK(all_of(scene.open()) == truth);
}
