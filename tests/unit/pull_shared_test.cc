#include <cerrno>

#include "runtime/base/sys.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/verify/verify.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/shared.hh"
#include "tests/catch.hh"
#include "tests/fixtures/shared_scene.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

namespace {

/// A file of an image as a start opens it: its bytes, or "-errno".
std::string served(const store::Store& store, const std::string& digest, const std::string& directory,
                   const std::string& name) {
    store::Store::OpenedFiles files = store.open_image(Digest(digest));
    uint32_t parent = directory.empty() ? 1 : files.index.lookup(1, directory);
    auto file = files.index.file(files.index.lookup(parent, name));
    REQUIRE(file);
    squash::DataReader reader(std::move(files.layers), files.index.layers(), 1 << 20);
    std::string out(file->size, '\0');
    long got = reader.read(*file, 0, out);
    return got < 0 ? std::to_string(got) : out;
}

size_t objects(const store::Store& store, const std::string& folder) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(store.path() + "/" + folder), {}));
}

mode_t mode_of(const std::string& path) {
    struct stat st {};
    REQUIRE(::stat(path.c_str(), &st) == 0);
    return st.st_mode & 07777;
}

}  // namespace

TEST_CASE("an image of a shared store is served from there, and nothing is fetched or written", "[pull][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    size_t blobs = scene.blobs();
    auto before = state_of(scene.site_path);

    store::Store user = scene.user();
    CHECK(user.refused().empty());
    CHECK(scene.pull(user) == scene.digest);
    CHECK(scene.pull(user, ":1", pull::Policy::never) == scene.digest);
    CHECK(scene.pull(user, "@" + scene.digest) == scene.digest);
    CHECK(served(user, scene.digest, "etc", "os") == "PRETTY=base\n");
    store::Store::OpenedFiles files = user.open_image(Digest(scene.digest));
    CHECK_FALSE(files.lease);

    CHECK(scene.blobs() == blobs);
    CHECK(state_of(scene.site_path) == before);
    for (const char* folder : {"layers", "images", "lists", "refs", "leases", "pins"})
        CHECK(objects(user, folder) == 0);
}

TEST_CASE("a store that is offered is published for all, whatever the umask", "[pull][shared]") {
    SharedScene scene;
    // As a site makes it, or not at all.
    if (GENERATE(false, true)) {
        fs::create_directory(scene.site_path);
        ::chmod(scene.site_path.c_str(), 0755);
    }
    mode_t mask = ::umask(0077);
    scene.pull(scene.site());
    ::umask(mask);
    CHECK(mode_of(scene.site_path) == 0755);
    for (const char* folder : {"layers", "images", "lists", "refs"})
        for (const auto& entry : fs::recursive_directory_iterator(cat(scene.site_path, "/", folder)))
            CHECK(mode_of(entry.path()) == (entry.is_directory() ? 0755 : 0444));
    for (const char* folder : {"locks", "leases", "pins", "tmp", "unpacked"})
        CHECK(mode_of(cat(scene.site_path, "/", folder)) == 0700);
}

TEST_CASE("a private store that the site begins to offer becomes readable", "[pull][shared]") {
    SharedScene scene;
    scene.pull(store::Store::open(scene.site_path));
    CHECK(mode_of(scene.site_path) == 0700);
    scene.site();
    CHECK(mode_of(scene.site_path) == 0755);
    CHECK(mode_of(cat(scene.site_path, "/images/", scene.digest.substr(7))) == 0755);
    CHECK(mode_of(scene.document("index")) == 0444);
    CHECK(scene.pull(scene.user(), ":1", pull::Policy::never) == scene.digest);
}

TEST_CASE("layers of a shared store are not fetched for another image that has them", "[pull][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    TwoLayers other;
    other.layers[1] = packed({{"bin/", ""}, {"bin/tool", "#!other\n"}});
    other.make_config();
    std::string digest = other.add_to(scene.registry.content);
    scene.registry.content.tag("2", digest);
    auto before = state_of(scene.site_path);
    size_t blobs = scene.blobs();

    store::Store user = scene.user();
    CHECK(scene.pull(user, ":2") == digest);
    CHECK(scene.blobs() == blobs + 2);  // its config and its own layer
    CHECK(objects(user, "layers") == 1);
    CHECK(served(user, digest, "bin", "tool") == "#!other\n");
    CHECK(served(user, digest, "etc", "os") == "PRETTY=base\n");
    CHECK(state_of(scene.site_path) == before);

    SECTION("one that goes missing there is pulled again") {
        fs::remove(scene.layer(0));
        CHECK_THROWS_WITH(user.open_image(Digest(digest)), Contains("missing from the shared stores"));
        CHECK(scene.pull(user, ":2") == digest);
        CHECK(objects(user, "layers") == 2);
        CHECK(served(user, digest, "etc", "os") == "PRETTY=base\n");
    }
    SECTION("one that is another conversion by now has other blocks: the index is made again, of that") {
        store::Store site = scene.site();
        auto file = site.new_file();
        std::string bytes = sys::read_file(scene.layer(0), 1 << 20);
        sys::write_all(file.fd(), bytes + std::string(4096, 'x'), "layer");
        site.publish_layer(std::move(file), Digest(scene.image.layers[0].diff_id));
        CHECK_FALSE(user.can_open(Digest(digest)));
        blobs = scene.blobs();
        CHECK(scene.pull(user, ":2") == digest);
        CHECK(scene.blobs() == blobs);
        CHECK(served(user, digest, "etc", "os") == "PRETTY=base\n");
    }
}

TEST_CASE("a flipped bit in a shared layer is an error of the read, and never other data",
          "[pull][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    store::Store user = scene.user();
    std::string right(300'000, 'b');
    store::Store::OpenedFiles files = user.open_image(Digest(scene.digest));
    uint64_t start = files.index.file(files.index.lookup(1, "big")).value().start;
    size_t errors = 0, size = fs::file_size(scene.layer(0));
    std::vector<uint64_t> places{start, start + 5};
    for (size_t at = 96; at < size - 128; at += size / 40) places.push_back(at);
    for (uint64_t at : places) {
        flip_bit(scene.layer(0), at);
        std::string got = served(user, scene.digest, "", "big"), os = served(user, scene.digest, "etc", "os");
        CHECK((got == right || got == std::to_string(-EIO)));
        CHECK((os == "PRETTY=base\n" || os == std::to_string(-EIO)));
        if (got != right || os != "PRETTY=base\n") ++errors;
        flip_bit(scene.layer(0), at);
    }
    CHECK(errors >= 2);
    CHECK(served(user, scene.digest, "", "big") == right);
}

TEST_CASE("a shared layer whose tables are damaged is fetched into the user's own store",
          "[pull][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    // So that the index has to be made, from the tables.
    fs::remove(scene.document("index"));
    flip_bit(scene.layer(0), 0);
    store::Store user = scene.user();
    CHECK(scene.pull(user) == scene.digest);
    CHECK(objects(user, "layers") == 1);
    CHECK(served(user, scene.digest, "etc", "os") == "PRETTY=base\n");
}

TEST_CASE("a shared document that is damaged makes no index", "[pull][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    fs::remove(scene.document("index"));
    std::string config = sys::read_file(scene.document("config.json"));
    flip_bit(scene.document("config.json"), config.find("PATH=/bin"));
    size_t blobs = scene.blobs();
    store::Store user = scene.user();
    CHECK(scene.pull(user) == scene.digest);
    CHECK(scene.blobs() == blobs + 1);  // the config alone
    CHECK(user.open_image(Digest(scene.digest)).index.config().env == std::vector<std::string>{"PATH=/bin"});
}

TEST_CASE("an index of another release is made again in the user's own store", "[pull][shared][release]") {
    SharedScene scene;
    scene.pull(scene.site());
    std::string index = sys::read_file(scene.document("index"), 1 << 20);
    index[8] = static_cast<char>(index[8] ^ 0x40);  // its version
    scene.site().replace_index(Digest(scene.digest), index);
    auto before = state_of(scene.site_path);
    size_t blobs = scene.blobs();

    store::Store user = scene.user();
    CHECK_FALSE(user.can_open(Digest(scene.digest)));
    CHECK(scene.pull(user) == scene.digest);
    CHECK(scene.blobs() == blobs);
    CHECK(objects(user, "images") == 1);
    CHECK(objects(user, "layers") == 0);
    CHECK(served(user, scene.digest, "etc", "os") == "PRETTY=base\n");
    CHECK(state_of(scene.site_path) == before);
    // It is the user's, and verifies as such.
    pull::Meter meter("");
    CHECK(pull::verify(user, meter).problems.empty());
}

TEST_CASE("of a tag the youngest record counts, the user's or the site's", "[store][shared]") {
    SharedScene scene;
    plan::Reference tag = plan::parse_reference("r.io/a:1");
    Digest old("sha256:" + std::string(64, 'a')), young("sha256:" + std::string(64, 'b'));
    scene.site().put_tag(tag, {young, 20, ""});
    store::Store user = scene.user();
    CHECK(user.digest_of(tag) == young);
    user.put_tag(tag, {old, 10, ""});
    CHECK(user.digest_of(tag) == young);
    user.put_tag(tag, {old, 20, ""});
    CHECK(user.digest_of(tag) == old);
}

TEST_CASE("a shared store of another owner, or open to others, is passed over in one line",
          "[store][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    uid_t wanted = ::geteuid();
    std::string why;
    SECTION("another owner") {
        wanted = 4242;
        if (::geteuid() == 0) REQUIRE(::chown(scene.site_path.c_str(), 4343, 4343) == 0);
        why = cat("belongs to uid ", ::geteuid() == 0 ? 4343 : ::geteuid(), ", not to store.shared_owner (uid 4242)");
    }
    SECTION("written by its group") {
        ::chmod(scene.site_path.c_str(), 0775);
        why = "can be written by others, who could change images; let its owner run chmod go-w";
    }
    SECTION("its parent written by all") {
        ::chmod(scene.registry.folder.path().c_str(), 0777);
        why = "on the way to it can be written by others";
    }
    SECTION("a symlink on the way") {
        fs::rename(scene.site_path, scene.site_path + "2");
        fs::create_directory_symlink(scene.site_path + "2", scene.site_path);
        why = "is a symlink; write the folder's own path";
    }
    store::Store user = scene.user("user", wanted);
    REQUIRE(user.refused().size() == 1);
    CHECK_THAT(user.refused()[0], Contains(why) && Contains(scene.site_path) && Contains("passed over"));
    CHECK(user.refused()[0].find('\n') == std::string::npos);
    CHECK(user.shared().empty());
    // The start goes on.
    CHECK(scene.pull(user) == scene.digest);
    CHECK(objects(user, "layers") == 2);
}

TEST_CASE("a shared store whose owner is no account here says so, and one that is not there says nothing",
          "[store][shared]") {
    SharedScene scene;
    CHECK(scene.user().refused().empty());
    scene.site();
    store::Store user =
        store::Store::open(store::make_location(scene.registry.folder / "user", ::geteuid(), {scene.site_path}, {}));
    REQUIRE(user.refused().size() == 1);
    CHECK_THAT(user.refused()[0], Contains("store.shared_owner names no account of this node"));
}

TEST_CASE("an object of a shared store that others could have written is as if it were not there",
          "[store][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    std::string object, mode = "can be written by others";
    SECTION("a layer") { object = scene.layer(0); }
    SECTION("the folder of layers") { object = scene.site_path + "/layers"; }
    SECTION("an image") { object = cat(scene.site_path, "/images/", scene.digest.substr(7)); }
    SECTION("a document") { object = scene.document("index"); }
    ::chmod(object.c_str(), fs::is_directory(object) ? 0775 : 0664);
    store::Store user = scene.user();
    CHECK(user.refused().empty());
    CHECK_FALSE(user.can_open(Digest(scene.digest)));
    CHECK_THAT(store::problem_in_shared(user.shared().at(0)), Contains(object) && Contains(mode));
    CHECK(scene.pull(user) == scene.digest);
    CHECK(served(user, scene.digest, "etc", "os") == "PRETTY=base\n");
    ::chmod(object.c_str(), fs::is_directory(object) ? 0755 : 0444);
    CHECK(store::problem_in_shared(user.shared().at(0)).empty());
}

TEST_CASE("what leads out of a shared store is not followed", "[store][shared]") {
    SharedScene scene;
    scene.pull(scene.site());
    std::string moved = scene.registry.folder / "moved";
    fs::rename(scene.layer(0), moved);
    fs::create_symlink(moved, scene.layer(0));
    CHECK_FALSE(scene.user().can_open(Digest(scene.digest)));
    fs::remove(scene.layer(0));
    // A pipe would keep a start waiting.
    REQUIRE(::mkfifo(scene.layer(0).c_str(), 0444) == 0);
    CHECK_FALSE(scene.user().can_open(Digest(scene.digest)));
}

TEST_CASE("a location travels as one text", "[store][shared]") {
    store::Location plain = store::parse_location("/a/b/");
    CHECK(plain.path == "/a/b");
    CHECK(plain.shared.empty());
    CHECK(plain.text() == "/a/b");

    std::vector<std::string> shared{"/srv/one two", "/srv/2"};
    store::Location out = store::parse_location(store::make_location("/x\ny", 7, shared, 993).text());
    CHECK(out.path == "/x\ny");
    CHECK(out.shared == shared);
    CHECK(out.shared_owner == uid_t{993});
    CHECK_FALSE(out.offered);
    CHECK_FALSE(store::parse_location(store::make_location("/x", 7, shared, {}).text()).shared_owner);

    // The store that is filled stands alone, or one of a node would stay empty beside the site's.
    store::Location filled = store::parse_location(store::make_location("/srv/2/", 993, shared, 993).text());
    CHECK(filled.offered);
    CHECK(filled.shared.empty());
    CHECK_FALSE(store::make_location("/srv/2", 7, shared, 993).offered);
    CHECK_THROWS_WITH(store::parse_location("shared x /a\n/b"), Contains("whose a shared store is"));
}
