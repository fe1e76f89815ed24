#include "runtime/squash/write/directory_layer.hh"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/read/read_tree.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using squash::test::TempFolder;

namespace {

/// A directory as the upper directory of an overlay looks, and the layer that it becomes.
struct Upper {
    TempFolder folder;
    std::string root = folder / "upper";

    Upper() { std::filesystem::create_directory(root); }
    std::string at(const std::string& path) const { return root + "/" + path; }
    void file(const std::string& path, const std::string& content) const {
        std::filesystem::create_directories(std::filesystem::path(at(path)).parent_path());
        test::write_file(at(path), content);
    }
    void mark(const std::string& path, const char* name, const std::string& value) const {
        REQUIRE(::setxattr(at(path).c_str(), name, value.data(), value.size(), 0) == 0);
    }
    void whiteout(const std::string& path) const {
        REQUIRE(::mknod(at(path).c_str(), S_IFCHR | 0600, makedev(0, 0)) == 0);
    }

    LeftOut pack(const std::string& name, DirectoryOptions options = {true, ::geteuid(), ::getegid()}) const {
        Fd out = folder.create(name), directory = sys::open_file(root, O_RDONLY | O_DIRECTORY);
        LayerWriter writer(out.get(), {});
        LeftOut left_out = add_directory(writer, directory.get(), options, "container c");
        writer.finish();
        return left_out;
    }
    fixtures::Squashfs packed() const {
        pack("layer");
        return fixtures::Squashfs(folder / "layer");
    }
};

}  // namespace

TEST_CASE("an overlay's upper directory becomes a layer with whiteouts", "[squash][save]") {
    Upper upper;
    upper.file("etc/new", "new");
    upper.file("opaque/only", "x");
    upper.mark("opaque", "user.overlay.opaque", "y");
    upper.whiteout("etc/removed");
    upper.file("etc/marked", "");
    upper.mark("etc/marked", "user.overlay.whiteout", "");
    upper.mark("etc/new", "user.mine", "value");
    upper.mark("etc/new", "user.overlay.origin", "secret");
    std::filesystem::create_symlink("/etc/shadow", upper.at("link"));
    std::filesystem::create_hard_link(upper.at("etc/new"), upper.at("second"));
    fixtures::Squashfs layer = upper.packed();
    CHECK(layer.content("etc/new") == "new");
    CHECK_THAT(layer.listing(), Catch::Contains("/etc/.wh.removed\n") && Catch::Contains("/etc/.wh.marked\n") &&
                                    Catch::Contains("/opaque/.wh..wh..opq\n") &&
                                    Catch::Contains("link -> /etc/shadow") && !Catch::Contains("/etc/marked\n"));
    auto opened = test::open_image(upper.folder / "layer");
    uint32_t file = test::at_path(opened.index, "etc/new");
    CHECK(file == test::at_path(opened.index, "second"));
    CHECK(opened.index.inode(file)->nlink == 2);
    CHECK(opened.index.xattr_names(file) == std::vector<std::string_view>{"user.mine"});
    CHECK(opened.index.inode(file)->uid == 0);
}

TEST_CASE("a directory that is no overlay's keeps its marks as what they are", "[squash][save]") {
    Upper upper;
    upper.file("opaque/only", "x");
    upper.mark("opaque", "user.overlay.opaque", "y");
    upper.whiteout("null");
    CHECK(upper.pack("layer", {}).devices == 1);
    CHECK_THAT(fixtures::Squashfs(upper.folder / "layer").listing(),
               !Catch::Contains(".wh.") && !Catch::Contains("null"));
}

TEST_CASE("files of every kind go into the layer, and none is opened that could wait", "[squash][save]") {
    Upper upper;
    REQUIRE(::mkfifo(upper.at("pipe").c_str(), 0622) == 0);
    int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, upper.at("socket").c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    Fd owner(listener);
    upper.file("setuid", "x");
    REQUIRE(::chmod(upper.at("setuid").c_str(), 04755) == 0);
    upper.file("odd \xff\n name", "odd");
    std::filesystem::create_symlink(std::string(4000, 'x'), upper.at("long"));
    // 8 GiB of holes around two words.
    Fd sparse = sys::open_file(upper.at("sparse"), O_RDWR | O_CREAT, 0644);
    REQUIRE(::pwrite(sparse.get(), "word", 4, 100 << 20) == 4);
    REQUIRE(::ftruncate(sparse.get(), 300 << 20) == 0);
    fixtures::Squashfs layer = upper.packed();
    std::string listing = layer.listing();
    CHECK_THAT(listing, Catch::Contains("prw-") && Catch::Contains("srwx") && Catch::Contains("-rwsr-xr-x") &&
                            Catch::Contains(std::string(4000, 'x')));
    CHECK(std::filesystem::file_size(upper.folder / "layer") < 100'000);
    auto opened = test::open_image(upper.folder / "layer");
    CHECK(test::content_of(opened, test::at_path(opened.index, "odd \xff\n name")) == "odd");
    uint32_t number = test::at_path(opened.index, "sparse");
    CHECK(opened.index.inode(number)->size == 300 << 20);
    char word[4];
    CHECK(opened.reader.read(*opened.index.file(number), 100 << 20, {word, 4}) == 4);
    CHECK(std::string_view(word, 4) == "word");
}

TEST_CASE("what a layer cannot say is refused with the object and the reason", "[squash][save]") {
    Upper upper;
    auto refused = [&](const std::string& text) { CHECK_THROWS_WITH(upper.pack("layer"), Catch::Contains(text)); };
    SECTION("a name that means a removal") {
        upper.file("a/.wh.b", "");
        refused("saving container c: /a/.wh.b: in an image this name means a removed file");
    }
    SECTION("a redirected directory") {
        upper.file("a/b", "");
        upper.mark("a", "user.overlay.redirect", "/else");
        refused("/a: the overlay has it as renamed in place");
    }
    SECTION("a file without its data") {
        upper.file("a/b", "");
        upper.mark("a/b", "user.overlay.metacopy", "");
        refused("/a/b: the overlay has its attributes without its data");
    }
    SECTION("the removal of a name of 255 bytes") {
        upper.whiteout(std::string(255, 'n'));
        refused("its name is too long");
    }
    SECTION("a file of more than a terabyte") {
        Fd huge = sys::open_file(upper.at("huge"), O_RDWR | O_CREAT, 0644);
        REQUIRE(::ftruncate(huge.get(), (off_t{1} << 40) + 1) == 0);
        refused("/huge: it is larger than 1 TiB");
    }
    SECTION("a path that is too long") {
        Fd at = sys::open_file(upper.root, O_RDONLY | O_DIRECTORY);
        for (int i = 0; i < 20; ++i) {
            std::string name(250, 'd');
            REQUIRE(::mkdirat(at.get(), name.c_str(), 0755) == 0);
            at = sys::open_at(at.get(), name, O_RDONLY | O_DIRECTORY);
        }
        refused("its path is longer than 4095 bytes");
    }
    SECTION("directories that are nested too deep") {
        Fd at = sys::open_file(upper.root, O_RDONLY | O_DIRECTORY);
        for (int i = 0; i < 1100; ++i) {
            REQUIRE(::mkdirat(at.get(), "d", 0755) == 0);
            at = sys::open_at(at.get(), "d", O_RDONLY | O_DIRECTORY);
        }
        refused("directories are nested more than 1024 deep");
    }
}

TEST_CASE("a tree that changes while it is read gives a layer without what lies outside", "[squash][save]") {
    Upper upper;
    test::write_file(upper.folder / "outside", "outside");
    std::filesystem::create_directory(upper.folder / "out");
    test::write_file(upper.folder / "out/secret", "outside");
    for (int i = 0; i < 200; ++i) upper.file(cat("d", i, "/f"), "inside");
    std::atomic<bool> done = false;
    std::thread changer([&] {
        for (unsigned i = 0; !done; ++i) {
            std::string directory = upper.at(cat("d", i % 200));
            std::error_code ignored;
            std::filesystem::remove_all(directory, ignored);
            if (i % 3 == 0) std::filesystem::create_symlink(upper.folder / "out", directory, ignored);
            std::filesystem::create_directory(directory, ignored);
            if (i % 2 == 0)
                std::filesystem::create_symlink(upper.folder / "outside", directory + "/f", ignored);
            else
                ::mkfifo((directory + "/f").c_str(), 0600);
        }
    });
    std::string trouble;
    for (int i = 0; i < 20; ++i) try {
            upper.pack("layer");
            std::string bytes =
                fixtures::run_command(cat("rm -rf ", upper.folder / "x", "; unsquashfs -no-progress -quiet -f -d ",
                                          upper.folder / "x", " ", upper.folder / "layer",
                                          " && grep -rl outside --no-dereference-recursive ", upper.folder / "x",
                                          " -D skip"))
                    .output;
            if (bytes.find("/f") != bytes.npos) trouble += bytes;
        } catch (const Error& error) {
            if (std::string(error.what()).find("changes faster") == std::string::npos) trouble += error.what();
        }
    done = true;
    changer.join();
    CHECK(trouble == "");
}

TEST_CASE("a directory merges over its image as the kernel's overlay shows it", "[squash][save]") {
    Upper upper;
    TempFolder base;
    Fd file = base.create("base");
    LayerWriter writer(file.get(), {});
    auto put = [&](const std::string& path, const std::string& content) {
        writer.begin_file(path, {});
        writer.append(content);
        writer.end_file();
    };
    put("keep", "base"), put("gone", "base"), put("dir/below", "base"), put("opaque/below", "base"),
        put("file", "base");
    writer.finish();
    upper.whiteout("gone");
    upper.file("dir/new", "upper");
    upper.file("opaque/new", "upper");
    upper.mark("opaque", "user.overlay.opaque", "y");
    upper.file("file", "upper");
    upper.pack("layer");
    std::vector<Fd> files;
    files.push_back(std::move(file));
    files.push_back(sys::open_file(upper.folder / "layer", O_RDONLY));
    std::vector<LayerInfo> infos(2);
    std::vector<Tree> trees;
    for (uint32_t i = 0; i < 2; ++i) trees.push_back(read_tree(files[i].get(), "layer", i, infos[i]));
    Fd out = base.create("flat");
    flatten(merge(std::move(trees)), files, infos, {}, out.get(), "flat");
    fixtures::Squashfs flat(base / "flat");
    CHECK(flat.line("gone").empty());
    CHECK(flat.line("opaque/below").empty());
    CHECK(flat.content("dir/below") + flat.content("dir/new") + flat.content("opaque/new") + flat.content("file") +
              flat.content("keep") ==
          "baseupperupperupperbase");
    CHECK_THAT(flat.listing(), !Catch::Contains(".wh."));
}
