#include "runtime/store/collect.hh"
#include "runtime/store/lease_holders.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/file_record.hh"
#include "runtime/store/retired.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"

namespace fs = std::filesystem;
using namespace berth;
using berth::plan::parse_reference;
using berth::store::Inventory;
using berth::store::KeepLimits;
using berth::store::Store;

namespace {

constexpr int64_t day = 24 * 3600;

Digest digest(char c) { return Digest("sha256:" + std::string(64, c)); }

/// A store with images of layers of 64 KiB.
struct Scene {
    fixtures::TempFolder folder;
    std::string path = folder / "store";
    Store store = Store::open(path);

    void add_layer(char layer) const {
        auto file = store.new_file();
        sys::write_all(file.fd(), std::string(64 << 10, layer), "layer");
        store.publish_layer(std::move(file), digest(layer));
    }
    /// `days` ago.
    void add_image(char image, const std::string& layers, const std::string& tag, int days) const {
        std::string config;
        for (char layer : layers) {
            add_layer(layer);
            config += cat("\"", digest(layer), "\"");
        }
        store.publish_image(digest(image), {"manifest", config, "index"});
        if (!tag.empty()) store.put_tag(parse_reference(tag), {digest(image), 1, ""});
        set_used(image, days);
    }
    void set_used(char image, int days) const {
        timespec times[2] = {{std::time(nullptr) - days * day, 0}, {std::time(nullptr) - days * day, 0}};
        std::string hex(64, image);
        REQUIRE(::utimensat(AT_FDCWD, cat(path, "/leases/", hex).c_str(), times, 0) == 0);
        REQUIRE(::utimensat(AT_FDCWD, cat(path, "/images/", hex, "/manifest.json").c_str(), times, 0) == 0);
    }
    size_t objects(const std::string& name) const {
        return static_cast<size_t>(std::distance(fs::directory_iterator(path + "/" + name), {}));
    }
    store::Removed collect(const KeepLimits& limits, bool dry = false) const {
        return store::collect(store, limits, dry, false).value();
    }
};

}  // namespace

TEST_CASE("an inventory tells sizes, shared layers, names and use", "[store]") {
    Scene scene;
    scene.add_image('a', "12", "r.io:5000/x/y:1", 3);
    scene.add_image('b', "13", "r.io/z:1", 1);
    scene.store.put_tag(store::id_record("123abc"), {digest('b'), 1, ""});
    scene.store.put_image_index(digest('c'), digest('b'));
    scene.store.put_tag(parse_reference("r.io/z:list"), {digest('c'), 1, ""});
    store::Lease lease = scene.store.lease(digest('a'));
    scene.set_used('a', 3);
    Inventory inventory = store::take_inventory(scene.store);
    REQUIRE(inventory.images.size() == 2);
    CHECK(inventory.images[0].digest == digest('b'));
    const store::StoredImage& a = inventory.images[1];
    CHECK(a.in_use);
    CHECK_FALSE(inventory.images[0].in_use);
    CHECK(inventory.images[0].tags.size() == 2);
    CHECK(inventory.images[0].records.size() == 1);
    REQUIRE(a.tags.size() == 1);
    CHECK(a.tags[0].reference.text() == "r.io:5000/x/y:1");
    CHECK(inventory.bytes(a) >= 128 << 10);
    CHECK(inventory.shared_bytes(a) >= 64 << 10);
    CHECK(inventory.shared_bytes(a) < 128 << 10);
    CHECK(inventory.find("r.io/z:list") == &inventory.images[0]);
    CHECK(inventory.find("r.io:5000/x/y:1") == &a);
    CHECK(inventory.find("aaaaaaaaaaaa") == &a);
    CHECK(inventory.find(digest('a').text()) == &a);
    CHECK(inventory.find("r.io/q@" + digest('c').text()) == &inventory.images[0]);
    CHECK(inventory.find("r.io/z:2") == nullptr);
}

TEST_CASE("what another release has beside the objects of this one is left alone, and goes with its image",
          "[store][release]") {
    Scene scene;
    scene.add_image('a', "12", "r.io/x:1", 40);
    std::string image = cat(scene.path, "/images/", std::string(64, 'a')), layers = scene.path + "/layers/";
    std::string other = cat(layers, std::string(64, '1'), ".other.sqfs");
    std::ofstream(image + "/index.9") << "of another form";
    std::ofstream(other) << "of another form";
    fs::create_directory(scene.path + "/new-folder");
    // A pin with lines that are not known still says who needs the image.
    std::ofstream(scene.path + "/state") << "";
    scene.store.pin(digest('a'), scene.path + "/state");
    for (const auto& pin : fs::directory_iterator(scene.path + "/pins")) {
        fs::permissions(pin.path(), fs::perms::owner_all);
        std::ofstream(pin.path(), std::ios::app) << "\na line of another release";
    }
    CHECK(Store::open(scene.path).pin_holders(digest('a')) == std::vector<std::string>{scene.path + "/state"});
    CHECK(scene.collect({1, day}).images.empty());
    CHECK(fs::exists(image + "/index.9"));
    CHECK(fs::exists(other));
    CHECK(scene.objects("pins") == 1);
    scene.store.unpin(digest('a'), scene.path + "/state");
    CHECK(scene.collect({1, day}).images.size() == 1);
    CHECK_FALSE(fs::exists(image));
    CHECK_FALSE(fs::exists(other));
    CHECK(fs::exists(scene.path + "/new-folder"));
}

TEST_CASE("what is removed: the old, then the least recently used until the rest fits", "[store]") {
    Inventory inventory;
    for (int i = 0; i < 4; ++i) {
        inventory.layers.push_back({cat(i), 100, 0, i == 0 ? 2U : 1U});
        Digest name = digest(static_cast<char>('a' + i));
        store::StoredImage image{name};
        image.used = 1'000'000'000 - i * 10 * day;
        image.tags.push_back({{}, name});
        image.layers = {static_cast<size_t>(i)};
        inventory.images.push_back(image);
    }
    inventory.images[1].layers.push_back(0);
    int64_t now = 1'000'000'000 + 60;
    using Positions = std::vector<size_t>;
    CHECK(images_to_remove(inventory, {}, now).empty());
    CHECK(images_to_remove(inventory, {0, 15 * day}, now) == Positions{3, 2});
    CHECK(images_to_remove(inventory, {400, 0}, now).empty());
    CHECK(images_to_remove(inventory, {399, 0}, now) == Positions{3});
    // The layer that two images have is not freed by one of them; the image used a minute ago stays whatever the limit.
    CHECK(images_to_remove(inventory, {1, 0}, now) == Positions{3, 2, 1});
    inventory.images[3].in_use = true;
    CHECK(images_to_remove(inventory, {399, 15 * day}, now) == Positions{2});
    inventory.images[3].in_use = false;
    inventory.images[2].tags.clear();
    CHECK(images_to_remove(inventory, {}, now).empty());
    CHECK(images_to_remove(inventory, {}, now + 30 * day) == Positions{2});
}

TEST_CASE("a collection removes layers of no image, and images with all their names", "[store]") {
    Scene scene;
    scene.add_image('a', "12", "r.io/x/y:1", 20);
    scene.add_image('b', "23", "r.io/z:1", 1);
    scene.add_layer('4');
    scene.store.put_image_index(digest('c'), digest('a'));
    scene.store.put_tag(parse_reference("r.io/x/y:list"), {digest('c'), 1, ""});
    scene.store.put_tag(store::id_record("123abc"), {digest('a'), 1, ""});
    scene.store.put_tag(parse_reference("r.io/x/y:gone"), {digest('d'), 1, ""});

    store::Removed told = scene.collect({0, 10 * day}, true);
    CHECK(told.images.size() == 1);
    CHECK(told.layers == 2);
    CHECK(scene.objects("layers") == 4);
    CHECK(scene.store.has_image(digest('a')));

    store::Removed removed = scene.collect({0, 10 * day});
    CHECK(removed.bytes == told.bytes);
    CHECK_FALSE(scene.store.has_image(digest('a')));
    CHECK(scene.store.has_image(digest('b')));
    CHECK(scene.objects("layers") == 2);
    CHECK(scene.objects("lists") == 0);
    CHECK(scene.objects("tmp") == 0);
    CHECK(scene.objects("leases") == 1);
    CHECK_FALSE(fs::exists(scene.path + "/refs/r.io/x"));
    CHECK(scene.objects("refs") == 1);
    CHECK(scene.store.digest_of(parse_reference("r.io/z:1")) == digest('b'));
    CHECK(scene.collect({0, 10 * day}).images.empty());
}

TEST_CASE("what runs is not removed, by limit or by hand, until its process has ended", "[store]") {
    Scene scene;
    scene.add_image('a', "1", "r.io/a:1", 20);
    int ready[2], end[2];
    REQUIRE((::pipe(ready) == 0 && ::pipe(end) == 0));
    pid_t child = fixtures::forked();
    if (child == 0) {
        store::Lease lease = scene.store.lease(digest('a'));
        char byte = lease ? 'y' : 'n';
        (void)!::write(ready[1], &byte, 1);
        (void)!::read(end[0], &byte, 1);
        ::_exit(0);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    CHECK(byte == 'y');
    // Its start was a use; only the lease keeps it now.
    scene.set_used('a', 20);
    CHECK(scene.collect({1, 1}).images.empty());
    CHECK_THROWS_WITH(store::remove_image(scene.store, digest('a')), Catch::Contains("in use by a running container"));
    CHECK_THROWS_WITH(store::remove_image(scene.store, digest('a')),
                      Catch::Contains(cat("container, process ", child, " (")) &&
                          Catch::EndsWith("; try again when that has ended"));
    CHECK(scene.objects("layers") == 1);
    fixtures::kill_one(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(scene.collect({1, 0}).images.size() == 1);
    CHECK(scene.objects("layers") == 0);
    for (int fd : {ready[0], ready[1], end[0], end[1]}) ::close(fd);
}

TEST_CASE("nothing is removed while a pull relies on it", "[store]") {
    Scene scene;
    scene.add_layer('1');
    {
        Lock pull = scene.store.hold_off_removals();
        CHECK_FALSE(store::collect(scene.store, {}, false, false));
        CHECK(scene.objects("layers") == 1);
    }
    CHECK(scene.collect({}).layers == 1);
}

TEST_CASE("a lock that a child has as well ends for both when it says so", "[store]") {
    Scene scene;
    scene.add_layer('1');
    Lock pull = scene.store.hold_off_removals();
    pid_t child = fixtures::forked();
    REQUIRE(child >= 0);
    if (child == 0) {
        pull.unlock();
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    CHECK_FALSE(store::collect(scene.store, {}, false, false));
    child = fixtures::forked();
    REQUIRE(child >= 0);
    if (child == 0) {
        pull.unlock_for_all();
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    CHECK(scene.collect({}).layers == 1);
}

TEST_CASE("a lease is a use, and a lease of an image that was removed in between is a new one", "[store]") {
    Scene scene;
    scene.add_image('a', "1", "r.io/a:1", 20);
    { store::Lease used = scene.store.lease(digest('a')); }
    CHECK(store::take_inventory(scene.store).images[0].used >= std::time(nullptr) - 60);
    store::remove_image(scene.store, digest('a'));
    CHECK(scene.objects("leases") == 0);
    store::Lease lease = scene.store.lease(digest('a'));
    CHECK(scene.objects("leases") == 1);
    CHECK_FALSE(scene.store.claim(digest('a')));
}

TEST_CASE("a tag among several is removed alone", "[store]") {
    Scene scene;
    scene.add_image('a', "1", "r.io/a:1", 1);
    scene.store.put_tag(parse_reference("r.io/a:2"), {digest('a'), 1, ""});
    store::remove_tag(scene.store, store::take_inventory(scene.store).images[0].tags[0]);
    CHECK(store::take_inventory(scene.store).images[0].tags.size() == 1);
    store::Removed removed = store::remove_image(scene.store, digest('a'));
    CHECK(removed.layers == 1);
    CHECK(scene.objects("refs") == 0);
}

TEST_CASE("the owner of a lock can be told", "[store]") {
    Scene scene;
    CHECK(scene.store.lock_owner(digest('a')) == "another process");
    Lock lock = scene.store.try_lock(digest('a'));
    CHECK_THAT(scene.store.lock_owner(digest('a')), Catch::StartsWith(cat("process ", ::getpid(), " on ")));
}

TEST_CASE("an image that a named container is made of stays until the container has gone", "[store]") {
    Scene scene;
    scene.add_image('1', "a", "r.io/x:1", 100);
    std::string holder = scene.folder / "state";
    std::ofstream(holder) << "here";
    scene.store.pin(digest('1'), holder);
    scene.store.pin(digest('1'), holder);
    CHECK(scene.objects("pins") == 1);
    CHECK(scene.collect({1, 1}).images.empty());
    CHECK_THROWS_WITH(store::remove_image(scene.store, digest('1')),
                      Catch::Contains("the container kept at " + holder + " is made of it"));
    SECTION("removed by name") {
        scene.store.unpin(digest('1'), holder);
        CHECK(scene.collect({1, 1}).images.size() == 1);
    }
    SECTION("lost") {
        fs::remove(holder);
        CHECK(scene.collect({1, 1}).images.size() == 1);
        CHECK(scene.objects("pins") == 0);
    }
    SECTION("of another host, where nobody can look") {
        scene.store.unpin(digest('1'), holder);
        std::ofstream(scene.path + "/pins/" + std::string(64, '1') + ".x") << "elsewhere\n/gone/state";
        CHECK(scene.collect({1, 1}).images.empty());
        CHECK_THROWS_WITH(store::remove_image(scene.store, digest('1')), Catch::Contains("/gone/state on elsewhere"));
    }
}

TEST_CASE("in a store that others read an image stays while it has a tag, and for the age after that",
          "[store][shared]") {
    Inventory inventory;
    plan::Reference tag = parse_reference("r.io/a:1");
    inventory.images.push_back({.digest = digest('a'), .tags = {{tag, digest('a')}}, .used = 0});
    inventory.images.push_back({.digest = digest('b'), .used = 91 * day});
    inventory.images.push_back({.digest = digest('c'), .used = 89 * day});
    inventory.images.push_back({.digest = digest('d'), .used = 60 * day});
    using Positions = std::vector<size_t>;
    CHECK(store::images_to_remove(inventory, {.age = 10 * day, .by_tag = true}, 100 * day) == Positions{3, 2});
    // Bytes count for nothing, and without an age that of images without a tag does.
    CHECK(store::images_to_remove(inventory, {.bytes = 1, .by_tag = true}, 100 * day) == Positions{3});
}

TEST_CASE("the age of an image that others read counts from when a tag last meant it", "[store][shared]") {
    fixtures::TempFolder folder;
    std::string path = folder / "store";
    Store store = Store::open(store::make_location(path, ::geteuid(), {path}, ::geteuid()));
    REQUIRE(store.is_offered());
    auto add = [&](char image, const std::string& tag) {
        auto file = store.new_file();
        sys::write_all(file.fd(), std::string(100, image), "layer");
        store.publish_layer(std::move(file), digest(image));
        store.publish_image(digest(image), {"manifest", cat("\"", digest(image), "\""), "index"});
        store.put_tag(parse_reference(tag), {digest(image), 1, ""});
        timespec old[2] = {{1000, 0}, {1000, 0}};
        for (const std::string& name : {cat("/leases/", digest(image).hex()),
                                        cat("/images/", digest(image).hex(), "/manifest.json")})
            REQUIRE(::utimensat(AT_FDCWD, (path + name).c_str(), old, 0) == 0);
    };
    add('a', "r.io/moved:1");
    add('b', "r.io/pruned:1");
    add('c', "r.io/stays:1");
    add('d', "r.io/moved:1");
    store::remove_tag(store, {parse_reference("r.io/pruned:1"), digest('b')});
    auto collected = [&](int64_t age) { return store::collect(store, {.bytes = 1, .age = age}, false, true)->images; };
    CHECK(collected(10 * day).empty());
    // As if that had been long ago.
    timespec old[2] = {{1000, 0}, {1000, 0}};
    for (char image : {'a', 'b'})
        REQUIRE(::utimensat(AT_FDCWD, cat(path, "/leases/", digest(image).hex()).c_str(), old, 0) == 0);
    CHECK(collected(10 * day).size() == 2);
    CHECK(store.has_image(digest('c')));
    CHECK(store.has_image(digest('d')));
    CHECK_FALSE(store.open_layer(digest('a')));
    CHECK(store.open_layer(digest('c')));
}

TEST_CASE("what is retired is found by nobody, stays open where it is, and goes after its age", "[store][shared]") {
    Scene scene;
    scene.add_image('a', "a", "r.io/a:1", 20);
    Fd held = scene.store.open_layer(digest('a'));
    std::string name = scene.store.layer_file(digest('a'));
    store::retire(scene.store, "layers", name);
    store::retire(scene.store, "images", digest('a').hex());
    CHECK_FALSE(scene.store.open_layer(digest('a')));
    CHECK_FALSE(scene.store.has_image(digest('a')));
    CHECK(store::take_inventory(scene.store).images.empty());
    CHECK(sys::read_all(held.get(), 1 << 20, "layer") == std::string(64 << 10, 'a'));

    // It comes again, whole, and goes again.
    scene.add_image('a', "a", "r.io/a:1", 20);
    Inventory inventory = store::take_inventory(scene.store);
    REQUIRE(inventory.images.size() == 1);
    CHECK(inventory.images[0].layers.size() == 1);
    store::retire(scene.store, "layers", name);
    store::retire(scene.store, "images", digest('a').hex());

    int64_t now = std::time(nullptr);
    CHECK(store::remove_retired(scene.store, 10 * day, now + 9 * day, false).layers == 0);
    CHECK(store::remove_retired(scene.store, 10 * day, now + 11 * day, true).layers == 2);
    CHECK(scene.objects("layers") == 2);
    CHECK(store::remove_retired(scene.store, 10 * day, now + 11 * day, false).bytes >= 128 << 10);
    CHECK(scene.objects("layers") == 0);
    CHECK(scene.objects("images") == 0);
}

TEST_CASE("store: who holds a lock is read of /proc/locks, and who waits for one is not", "[store][holders]") {
    std::string locks = "1: FLOCK  ADVISORY  READ 41 00:2f:77 0 EOF\n"
                        "1: -> FLOCK  ADVISORY  WRITE 42 00:2f:77 0 EOF\n"
                        "2: FLOCK  ADVISORY  READ 43 00:2f:77 0 EOF\n2: FLOCK  ADVISORY  READ 43 00:2f:77 0 EOF\n"
                        "3: POSIX  ADVISORY  WRITE 44 00:2f:77 0 EOF\n4: FLOCK  ADVISORY  WRITE 45 00:2f:78 0 EOF\n"
                        "5: FLOCK  ADVISORY  READ 0 00:2f:77 0 EOF\n6: FLOCK\n";
    CHECK(store::lock_holders(locks, makedev(0, 0x2f), 77) == std::vector<pid_t>{41, 43});
    CHECK(store::lock_holders("", makedev(0, 0x2f), 77).empty());
    CHECK_THAT(store::described_process(::getpid()), Catch::StartsWith(cat("process ", ::getpid(), " (")));
    CHECK(store::described_process(INT32_MAX).empty());
}
