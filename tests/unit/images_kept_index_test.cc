#include "runtime/images/kept_index.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/write/writer.hh"
#include "runtime/store/collect.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

namespace fs = std::filesystem;
using namespace berth;
using Catch::Contains;

namespace {

struct Scene {
    fixtures::TempFolder folder;
    std::string path = folder / "image.sqsh";
    store::Store store = store::Store::open(folder / "store");
    int64_t now = std::time(nullptr) + 60;  ///< the file is older than a moment
    int built = 0;

    Scene() { write_image("one"); }

    void write_image(const std::string& name) const {
        Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        squash::LayerWriter writer(file.get(), {});
        // Several pages of an index.
        for (int i = 0; i < 400; ++i) {
            writer.begin_file(cat(name, "/", i), {});
            writer.append(cat(name, i));
            writer.end_file();
        }
        writer.finish();
    }

    squash::Index index(const store::Store* kept_in, IndexOf what = IndexOf::image) {
        Fd file = sys::open_file(path, O_RDONLY);
        auto build = [&] {
            ++built;
            squash::ImageTree read = tree_of_image_file(file.get(), path);
            plan::ImageConfig config;
            config.env = {"A=b"};
            config.of_enroot = true;
            config.unread_lines = 3;
            return squash::build_index(read.tree, read.layers, config);
        };
        return kept_index(file.get(), what, kept_in, build, now);
    }
    squash::Index index() { return index(&store); }

    std::vector<fs::path> kept() const {
        std::vector<fs::path> out;
        for (const auto& entry : fs::directory_iterator(store.path() + "/unpacked")) out.push_back(entry.path());
        return out;
    }
};

bool has(const squash::Index& index, std::string_view name) { return index.lookup(1, name) != 0; }

}  // namespace

TEST_CASE("an image file's index is built for its first start and kept for the next ones", "[source]") {
    Scene scene;
    squash::Index first = scene.index(), second = scene.index();
    CHECK(scene.built == 1);
    CHECK(second.id() == first.id());
    CHECK(second.descriptor() >= 0);
    for (uint32_t inode = 1; inode <= first.inode_count(); ++inode) {
        REQUIRE(second.inode(inode)->size == first.inode(inode)->size);
        REQUIRE(second.entry_count(inode) == first.entry_count(inode));
    }
    plan::ImageConfig config = second.config();
    CHECK(config.env == std::vector<std::string>{"A=b"});
    CHECK(config.of_enroot);
    CHECK(config.unread_lines == 3);

    SECTION("not without a store") {
        scene.index(nullptr);
        CHECK(scene.built == 2);
        CHECK(scene.kept().size() == 1);
    }
    SECTION("another one where it is data that are mounted") {
        scene.index(&scene.store, IndexOf::data);
        scene.index(&scene.store, IndexOf::data);
        CHECK(scene.built == 2);
        CHECK(scene.kept().size() == 2);
    }
    SECTION("of the file as it is: another one of the same size and time is read anew") {
        struct stat st = sys::stat_of(sys::open_file(scene.path, O_RDONLY).get(), "it");
        scene.write_image("two");
        timespec times[2] = {st.st_atim, st.st_mtim};
        REQUIRE(::utimensat(AT_FDCWD, scene.path.c_str(), times, 0) == 0);
        REQUIRE(sys::stat_of(sys::open_file(scene.path, O_RDONLY).get(), "it").st_size == st.st_size);
        squash::Index third = scene.index();
        CHECK(scene.built == 2);
        CHECK(has(third, "two"));
        CHECK_FALSE(has(third, "one"));
    }
    SECTION("a copy, which is another file, too") {
        fs::copy_file(scene.path, scene.folder / "copy");
        fs::rename(scene.folder / "copy", scene.path);
        CHECK(has(scene.index(), "one"));
        CHECK(scene.built == 2);
    }
    SECTION("not of a file that has changed just now, which could change again unseen") {
        for (const fs::path& file : scene.kept()) fs::remove(file);
        scene.now = std::time(nullptr);
        scene.write_image("two");
        CHECK(has(scene.index(), "two"));
        CHECK(scene.kept().empty());
    }
    SECTION("and what was cut off, or has another header, is built again") {
        for (uint64_t size : {0, 100, 5000}) {
            fs::resize_file(scene.kept().at(0), size);
            CHECK(has(scene.index(), "one"));
        }
        CHECK(scene.built == 4);
        std::fstream(scene.kept().at(0), std::ios::in | std::ios::out).seekp(40).write("x", 1);
        CHECK(has(scene.index(), "one"));
        CHECK(scene.built == 5);
        scene.index();
        CHECK(scene.built == 5);
    }
    SECTION("a page of it that is damaged is told when it is needed, with the file to remove") {
        auto size = static_cast<std::streamoff>(fs::file_size(scene.kept().at(0)));
        std::fstream file(scene.kept().at(0), std::ios::in | std::ios::out);
        for (std::streamoff at = 4096; at + 4096 < size; at += 4096) file.seekp(at + 9).write("xyz", 3);
        file.close();
        std::string message;
        try {
            squash::Index damaged = scene.index();
            for (uint32_t inode = 1; inode <= damaged.inode_count(); ++inode) damaged.inode(inode);
        } catch (const Error& error) {
            message = error.what();
        }
        CHECK_THAT(message, Contains("are not those that were written") &&
                                Contains(cat("remove ", scene.kept().at(0).string())));
    }
    SECTION("and goes when the file has not been used for long") {
        timespec old{::time(nullptr) - 40 * 24 * 3600, 0}, times[2] = {old, old};
        for (const auto& file : fs::directory_iterator(scene.store.path() + "/leases"))
            REQUIRE(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
        REQUIRE(store::collect(scene.store, {}, false, true));
        CHECK(scene.kept().empty());
    }
}

TEST_CASE("an image file starts as well where its store can keep nothing", "[source]") {
    Scene scene;
    fs::permissions(scene.store.path() + "/unpacked", fs::perms(0500));
    fs::remove_all(scene.store.path() + "/tmp");
    CHECK(has(scene.index(), "one"));
    CHECK(has(scene.index(), "one"));
    CHECK(scene.built == 2);
    fs::permissions(scene.store.path() + "/unpacked", fs::perms(0700));
}
