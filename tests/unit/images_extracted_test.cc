#include "runtime/images/extracted.hh"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/squash/write/writer.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/extracted.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/squash_support.hh"

namespace fs = std::filesystem;
using namespace berth;

namespace {

/// An image file, and a store to extract it to.
struct Scene {
    fixtures::TempFolder folder;
    std::string path = folder / "image.sqsh";
    store::Store store = store::Store::open(folder / "store");

    Scene() { write_image("one"); }
    void write_image(const std::string& word) const {
        Fd file = folder.create("image.sqsh");
        squash::LayerWriter writer(file.get(), {});
        // An image's root need not be one that its owner may write to.
        writer.add_directory("", {.mode = 0555, .xattrs = {}});
        for (const std::string name : {"etc/word", "large"}) {
            writer.begin_file(name, {.mode = 0644, .xattrs = {}});
            std::string content = name == "large" ? squash::test::noise(3 << 20, 1) : word;
            writer.append(content);
            writer.end_file();
        }
        writer.finish();
    }
    ContainerImage use(const PullWatch& watch = {}) const {
        OpenedImage opened{open_image_file(path), {}};
        use_extracted(opened, store, plan::ImageModes::image, "image x", watch);
        return std::move(opened.image);
    }
    size_t count(const std::string& name) const {
        return static_cast<size_t>(
            std::distance(fs::directory_iterator(cat(store.path(), "/", name)), fs::directory_iterator()));
    }
    /// As if nobody had used anything for `days`.
    void age(int days) const {
        timespec old{::time(nullptr) - days * 24 * 3600, 0}, times[2] = {old, old};
        for (const auto& file : fs::directory_iterator(store.path() + "/leases"))
            REQUIRE(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
    }
};

}  // namespace

TEST_CASE("an image is extracted once, whoever comes at the same time, and again when its file has changed",
          "[unpack]") {
    Scene scene;
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
        children.push_back(fixtures::forked());
        if (children.back() != 0) continue;
        std::string word;
        try {
            word = sys::read_file(scene.use().directory + "/etc/word");
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
        }
        ::_exit(word == "one" ? 0 : 1);
    }
    for (pid_t child : children) {
        int status = -1;
        ::waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    CHECK(scene.count("unpacked") == 1);
    CHECK(scene.count("tmp") == 0);
    ino_t before = fs::exists(scene.use().directory)
                       ? sys::stat_of(sys::open_file(scene.use().directory, O_PATH).get(), "x").st_ino
                       : 0;
    CHECK(sys::stat_of(sys::open_file(scene.use().directory, O_PATH).get(), "x").st_ino == before);
    scene.write_image("another");
    CHECK(sys::read_file(scene.use().directory + "/etc/word") == "another");
    CHECK(scene.count("unpacked") == 2);
}

TEST_CASE("what was extracted is removed when nobody has used it for long, and not while it is used", "[unpack]") {
    Scene scene;
    store::KeepLimits limits{.bytes = 0, .age = 5 * 24 * 3600};
    {
        ContainerImage image = scene.use();
        scene.age(6);
        store::collect(scene.store, limits, false, true);
        CHECK(fs::exists(image.directory + "/etc/word"));
    }
    scene.age(4);
    store::collect(scene.store, limits, false, true);
    CHECK(scene.count("unpacked") == 1);
    scene.age(6);
    store::collect(scene.store, limits, false, true);
    CHECK(scene.count("unpacked") == 0);
    CHECK(scene.count("tmp") == 0);
    CHECK(scene.count("leases") == 0);
}

TEST_CASE("files of a form that is written no more go as an extracted image does", "[unpack]") {
    Scene scene;
    Fd image = sys::open_file(scene.path, O_RDONLY);
    Digest key = store::file_key(image.get());
    {
        store::Lease lease = scene.store.lease(key);
        // For squashfuse_ll, of releases before.
        Fd flat = sys::open_at(scene.store.directory("unpacked").get(), key.hex() + ".1.2.sqfs", O_WRONLY | O_CREAT);
        sys::write_all(flat.get(), "flat", "x");
        scene.use();
        CHECK(scene.count("unpacked") == 2);
        CHECK(store::extracted_digests(scene.store) == std::vector<Digest>{key});
        scene.age(6);
        store::collect(scene.store, {.bytes = 0, .age = 5 * 24 * 3600}, false, true);
        CHECK(scene.count("unpacked") == 2);
    }
    store::collect(scene.store, {.bytes = 0, .age = 5 * 24 * 3600}, false, true);
    CHECK(scene.count("unpacked") == 0);
    CHECK(scene.count("tmp") == 0);
}

TEST_CASE("whoever is killed while extracting leaves nothing that counts", "[unpack]") {
    Scene scene;
    pid_t child = fixtures::forked();
    if (child == 0) {
        store::add_extracted(scene.store, store::file_key(sys::open_file(scene.path, O_RDONLY).get()),
                            plan::ImageModes::image,
                            [](int directory) {
                                ::mkdirat(directory, "half", 0700);
                                ::raise(SIGKILL);
                            });
        ::_exit(1);
    }
    ::waitpid(child, nullptr, 0);
    CHECK(scene.count("tmp") == 1);
    CHECK(scene.count("unpacked") == 0);
    CHECK(scene.store.sweep() == 1);
    CHECK(scene.count("tmp") == 0);
    CHECK(sys::read_file(scene.use().directory + "/etc/word") == "one");
}

TEST_CASE("a user who loses timeout ends an extraction", "[unpack]") {
    Scene scene;
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    Fd reading(ends[0]);
    Fd(ends[1]).reset();
    PullWatch watch;
    watch.descriptor = reading.get();
    watch.ready = [] { throw Error("interrupted"); };
    CHECK_THROWS_WITH(scene.use(watch), "interrupted");
    CHECK(scene.count("unpacked") == 0);
    CHECK(scene.count("tmp") == 0);
}

TEST_CASE("extract: a tree of the store that was made a symlink is not used", "[unpack]") {
    Scene scene;
    ContainerImage image = scene.use();
    struct stat st {};
    REQUIRE(::stat(image.directory.c_str(), &st) == 0);
    // By which the start knows it again.
    CHECK(image.directory_identity == std::pair<uint64_t, uint64_t>(st.st_dev, st.st_ino));
    fs::path tree = fs::path(image.directory).parent_path(), elsewhere = scene.folder / "elsewhere";
    fs::rename(tree, elsewhere);
    fs::create_directory_symlink(elsewhere, tree);
    CHECK_THROWS_WITH(scene.use(), Catch::Contains("publishing ") && Catch::Contains("Not a directory"));
    fs::remove(tree);
    fs::rename(elsewhere, tree);
    CHECK(scene.use().directory == image.directory);
    fs::rename(tree, elsewhere);
    fs::create_directory(tree);
    fs::create_directory_symlink(elsewhere / "rootfs", tree / "rootfs");
    CHECK_THROWS_AS(scene.use(), Error);
}
