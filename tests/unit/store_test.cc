#include "runtime/store/store.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "runtime/store/names.hh"
#include "runtime/store/scratch.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

namespace fs = std::filesystem;
using berth::Digest;
using berth::plan::parse_reference;
using berth::store::Store;

namespace {

const Digest digest_a("sha256:" + std::string(64, 'a'));
const Digest digest_b("sha256:" + std::string(64, 'b'));

struct Folder {
    Folder() {
        char name[] = "/tmp/berth-store-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Folder() { fs::remove_all(path); }
    std::string path;
};

size_t count(const std::string& path) {
    size_t n = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(path)) ++n;
    return n;
}

std::string refusal(const std::string& path) {
    try {
        Store::open(path);
    } catch (const berth::Error& error) {
        return error.what();
    }
    return "";
}

void publish_layer(const Store& store, const Digest& diff_id, const std::string& bytes) {
    auto file = store.new_file();
    berth::sys::write_all(file.fd(), bytes, "layer");
    store.publish_layer(std::move(file), diff_id);
}

/// Runs `body` in a child that is killed at its end, as by kill -9.
void in_killed_child(const std::function<void()>& body) {
    pid_t child = berth::fixtures::forked();
    if (child == 0) {
        body();
        berth::fixtures::kill_one(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("the store is made private and opened again", "[store]") {
    Folder folder;
    std::string path = folder.path + "/a/b";
    Store::open(path);
    struct stat st {};
    REQUIRE(::stat(path.c_str(), &st) == 0);
    CHECK((st.st_mode & 07777) == 0700);
    CHECK(Store::open(path + "/").path() == path);
}

TEST_CASE("a directory with other things in it is not made a store", "[store]") {
    Folder folder;
    std::ofstream(folder.path + "/letter") << "x";
    CHECK_THAT(refusal(folder.path), Catch::Contains("such as letter"));
    CHECK(count(folder.path) == 1);
}

TEST_CASE("tags are recorded and found", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    auto reference = parse_reference("127.0.0.1:5000/a/b:1");
    CHECK_FALSE(store.find_tag(reference));
    CHECK_FALSE(store.digest_of(reference));
    store.put_tag(reference, {digest_a, 1234, "\"x y\""});
    auto found = store.find_tag(reference);
    REQUIRE(found);
    CHECK(found->digest == digest_a);
    CHECK(found->time == 1234);
    CHECK(found->etag == "\"x y\"");
    store.put_tag(reference, {digest_b, 1235, "forged\ndigest sha256:0"});
    CHECK(store.digest_of(reference) == digest_b);
    CHECK(store.find_tag(reference)->etag.empty());
    CHECK(store.digest_of(parse_reference("r.io/x@" + digest_a.text())) == digest_a);
    CHECK(count(folder.path + "/tmp") == 0);
}

TEST_CASE("a tag and a repository of the same path can both be there", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    store.put_tag(parse_reference("r.io/a:b"), {digest_a, 1, ""});
    store.put_tag(parse_reference("r.io/a/b:c"), {digest_b, 1, ""});
    CHECK(store.digest_of(parse_reference("r.io/a:b")) == digest_a);
    CHECK(store.digest_of(parse_reference("r.io/a/b:c")) == digest_b);
}

TEST_CASE("layers and images appear whole", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    CHECK_FALSE(store.open_layer(digest_a));
    publish_layer(store, digest_a, "layer");
    berth::Fd layer = store.open_layer(digest_a);
    REQUIRE(layer);
    CHECK(berth::sys::read_all(layer.get(), 100, "layer") == "layer");
    publish_layer(store, digest_a, "again");
    CHECK(berth::sys::read_all(store.open_layer(digest_a).get(), 100, "layer") == "again");

    CHECK_FALSE(store.has_image(digest_b));
    store.publish_image(digest_b, {"manifest", "config", "index"});
    CHECK(store.has_image(digest_b));
    CHECK(store.read_document(digest_b, "config.json") == "config");
    store.publish_image(digest_b, {"manifest", "config", "index 2"});
    CHECK(berth::sys::read_all(store.open_index(digest_b).get(), 100, "index") == "index 2");
    CHECK(count(folder.path + "/tmp") == 0);
    CHECK_THROWS_WITH(store.open_index(digest_a), Catch::Contains("not in the store"));
}

TEST_CASE("a layer that was stored under its former name is found, replaced there, and known to any index", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    std::string name = berth::store::layer_file_name(digest_a), former = name.substr(0, 64) + ".zstd.sqfs";
    CHECK(name == digest_a.hex() + ".sqfs");
    CHECK(store.layer_file(digest_a) == name);
    publish_layer(store, digest_a, "old");
    fs::rename(folder.path + "/layers/" + name, folder.path + "/layers/" + former);
    CHECK(store.layer_file(digest_a) == former);
    CHECK(berth::sys::read_all(store.open_layer(digest_a).get(), 100, "layer") == "old");
    publish_layer(store, digest_a, "again");
    CHECK(count(folder.path + "/layers") == 1);
    CHECK(berth::sys::read_all(store.open_layer(digest_a).get(), 100, "layer") == "again");
    auto by_index = [&](const std::string& called) {
        berth::Fd layer(::memfd_create("layer", MFD_CLOEXEC));
        berth::squash::LayerWriter(layer.get(), {}).finish();
        berth::squash::LayerInfo info{called, berth::squash::Codec::zstd, 0};
        berth::squash::Tree tree = berth::squash::read_tree(layer.get(), "layer", 0, info);
        std::string bytes = berth::squash::build_index(tree, {info}, {});
        store.publish_image(digest_b, {"manifest", "config", bytes});
        berth::Fd file = store.open_index(digest_b);
        berth::squash::Index index = berth::squash::Index::open(file.get(), "index");
        return berth::sys::read_all(store.open_layers(index).at(0).get(), 100, "layer");
    };
    CHECK(by_index(former) == "again");
    CHECK(by_index(name) == "again");
    CHECK_THROWS_WITH(by_index(digest_b.hex() + ".sqfs"), Catch::Contains("missing from the store"));
}

TEST_CASE("an image index stands for its image on this machine", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    store.put_image_index(digest_a, digest_b);
    CHECK_FALSE(store.has_image(digest_a));
    store.publish_image(digest_b, {"manifest", "config", "index"});
    CHECK(store.image_of(digest_a) == digest_b);
    CHECK(berth::sys::read_all(store.open_index(digest_a).get(), 100, "index") == "index");
}

TEST_CASE("hostile row 28: no text but a digest becomes part of a store path", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    for (const char* bad : {"sha256:../../x", "../x", "", "sha256:abc"}) {
        CHECK_THROWS_AS(store.has_image(Digest(bad)), berth::Error);
        CHECK_THROWS_AS(store.open_layer(Digest(bad)), berth::Error);
        CHECK_THROWS_AS(store.put_tag(parse_reference("a"), {Digest(bad), 1, ""}), berth::Error);
        CHECK_THROWS_AS(store.try_lock(Digest(bad)), berth::Error);
    }
}

TEST_CASE("hostile row 45: a killed publisher leaves nothing that looks published", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    in_killed_child([&] {
        auto file = store.new_file();
        berth::sys::write_all(file.fd(), "half", "layer");
        berth::fixtures::kill_one(::getpid(), SIGKILL);
    });
    CHECK(count(folder.path + "/layers") == 0);
    CHECK(count(folder.path + "/tmp") == 0);

    in_killed_child([&] {
        berth::Fd tmp = berth::sys::open_file(folder.path + "/tmp", O_RDONLY | O_DIRECTORY);
        berth::store::Scratch scratch(tmp.get(), "tmp");
        berth::sys::write_all(berth::sys::open_at(scratch.fd(), "manifest.json", O_WRONLY | O_CREAT, 0600).get(), "x",
                              "manifest");
        berth::fixtures::kill_one(::getpid(), SIGKILL);
    });
    CHECK(count(folder.path + "/images") == 0);
    CHECK(count(folder.path + "/tmp") == 1);
    CHECK(store.sweep() == 1);
    CHECK(count(folder.path + "/tmp") == 0);
}

TEST_CASE("hostile row 66: what a crash of the node left is reaped, whatever process has its number now", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    // The names say that this very process made them; but the lock of a maker ends with the boot it lived in.
    fs::create_directory(folder.path + "/tmp/" + berth::store::scratch_name());
    std::ofstream(folder.path + "/tmp/" + berth::store::scratch_name()) << "half a layer";
    std::ofstream(folder.path + "/locks/" + std::string(64, 'a')) << berth::store::scratch_name();
    std::ofstream(folder.path + "/leases/" + std::string(64, 'a')) << "";
    CHECK(store.sweep() == 2);
    CHECK(count(folder.path + "/tmp") == 0);
    CHECK(store.try_lock(digest_a));
    CHECK(store.claim(digest_a));
}

TEST_CASE("a sweep leaves alone what is held or belongs to another host", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    berth::Fd tmp = berth::sys::open_file(folder.path + "/tmp", O_RDONLY | O_DIRECTORY);
    berth::store::Scratch held(tmp.get(), "tmp");
    std::ofstream(folder.path + "/tmp/another-host-of-ours.1.1") << "x";
    CHECK(store.sweep() == 0);
    CHECK(count(folder.path + "/tmp") == 2);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    REQUIRE(::utimensat(tmp.get(), "another-host-of-ours.1.1", old, 0) == 0);
    CHECK(store.sweep() == 1);
}

TEST_CASE("hostile row 50: a store of someone else, open to others or behind a symlink is refused", "[store]") {
    Folder folder;
    std::string store = folder.path + "/store";
    Store::open(store);

    REQUIRE(::chmod(store.c_str(), 0770) == 0);
    CHECK_THAT(refusal(store), Catch::Contains("chmod go-w"));
    REQUIRE(::chmod(store.c_str(), 0702) == 0);
    CHECK_THAT(refusal(store), Catch::Contains("chmod go-w"));
    REQUIRE(::chmod(store.c_str(), 0755) == 0);
    CHECK(refusal(store).empty());

    std::string link = folder.path + "/link";
    REQUIRE(::symlink(store.c_str(), link.c_str()) == 0);
    CHECK_THAT(refusal(link), Catch::Contains("is a symlink"));
    CHECK_THAT(refusal(link + "/"), Catch::Contains("is a symlink"));

    std::string file = folder.path + "/file";
    std::ofstream(file) << "x";
    CHECK_THAT(refusal(file), Catch::Contains("not a directory"));
}

TEST_CASE("hostile row 51: a store that another user made first is refused and stays as it is", "[store]") {
    if (::geteuid() == 0) {
        Folder folder;
        std::string store = folder.path + "/store";
        REQUIRE(::mkdir(store.c_str(), 0700) == 0);
        REQUIRE(::chown(store.c_str(), 12345, 12345) == 0);
        CHECK_THAT(refusal(store), Catch::Contains("belongs to uid 12345"));
        CHECK(count(store) == 0);
    } else {
        CHECK_THAT(refusal("/etc"), Catch::Contains("belongs to uid 0"));
    }
}

TEST_CASE("objects are not reached through symlinks inside the store", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path + "/store");
    std::ofstream(folder.path + "/outside") << "x";
    fs::create_symlink(folder.path + "/outside",
                       folder.path + "/store/layers/" + berth::store::layer_file_name(digest_a));
    CHECK_THROWS_AS(store.open_layer(digest_a), berth::Error);
    fs::create_directory(folder.path + "/elsewhere");
    fs::create_symlink(folder.path + "/elsewhere", folder.path + "/store/refs/r.io");
    CHECK_THROWS_AS(store.put_tag(parse_reference("r.io/a:1"), {digest_a, 1, ""}), berth::Error);
    CHECK(count(folder.path + "/elsewhere") == 0);
}

TEST_CASE("a lock is held by one and freed by its holder's death", "[store]") {
    Folder folder;
    Store store = Store::open(folder.path);
    {
        berth::Lock mine = store.try_lock(digest_a);
        REQUIRE(mine);
        CHECK_FALSE(store.try_lock(digest_a));
        CHECK(store.try_lock(digest_b));
    }
    in_killed_child([&] {
        static berth::Lock held;
        held = store.lock(digest_a);
    });
    CHECK(store.try_lock(digest_a));
}
