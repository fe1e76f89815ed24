#include <sys/stat.h>
#include <sys/xattr.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/unpack.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_builder.hh"

using namespace berth;
using namespace berth::oci;
using fixtures::Squashfs;
using fixtures::TarBuilder;
using fixtures::TempFolder;

namespace {

/// A layer made of one archive.
class Layer {
  public:
    explicit Layer(const TarBuilder& tar, const LayerLimits& limits = {}) : squashfs(folder_ / "layer") {
        Fd fd = folder_.create("layer");
        squash::LayerWriter writer(fd.get(), {});
        Unpacker unpacker(writer, limits);
        TarParser parser(unpacker);
        std::string bytes = tar.finished();
        parser.feed(bytes);
        parser.finish();
        unpacker.finish();
        writer.finish();
        skipped = unpacker.skipped_devices();
        entries = writer.entries();
    }
    bool has(const std::string& path) const { return !squashfs.line(path).empty(); }
    std::string content(const std::string& path) const { return squashfs.content(path); }
    /// The type letter of a path: '-', 'd', 'l', 'p'; ' ' when there is none.
    char type(const std::string& path) const { return has(path) ? squashfs.line(path)[0] : ' '; }
    /// The file extracted by unsquashfs, which extracts only `paths` when they are given first.
    std::string extracted(const std::string& path, const std::string& paths = {}) {
        if (!std::filesystem::exists(folder_ / "out")) squashfs.extract(folder_ / "out", paths);
        return folder_ / ("out/" + path);
    }

  private:
    TempFolder folder_;

  public:
    Squashfs squashfs;
    uint64_t skipped = 0, entries = 0;
};

}  // namespace

TEST_CASE("hostile row 1: names are normalised inside the root, those that leave it are refused", "[unpack][hostile]") {
    CHECK(normalised_name("./a//b/./c/") == "a/b/c");
    CHECK(normalised_name("/etc/passwd") == "etc/passwd");
    CHECK(normalised_name("a/../b") == "b");
    CHECK(normalised_name("./") == "");
    CHECK(normalised_name("/") == "");
    CHECK(normalised_name("a/..") == "");
    CHECK(normalised_name("..a/b..") == "..a/b..");
    for (const char* name : {"..", "../x", "a/../../x", "/../x", "./..", "a/b/../../../a/b"})
        CHECK_THROWS_WITH(normalised_name(name), Catch::Contains("leads out of the image"));
    CHECK_THROWS_AS(normalised_name(""), Error);
    CHECK_THROWS_AS(Layer(TarBuilder().file("../../etc/passwd", "x")), Error);
    Layer layer(TarBuilder().file("/etc/passwd", "x").file("a/../b", "y"));
    CHECK(layer.content("etc/passwd") == "x");
    CHECK(layer.content("b") == "y");
}

TEST_CASE("hostile row 2: a file through a symlink to / stays in the tree", "[unpack][hostile]") {
    Layer layer(TarBuilder()
                    .directory("etc")
                    .symlink("x", "/")
                    .file("x/etc/evil", "1")
                    .symlink("up", "../../../..")
                    .file("up/top", "2"));
    CHECK(layer.content("etc/evil") == "1");
    CHECK(layer.content("top") == "2");
    CHECK(layer.type("x") == 'l');
    Layer outside(TarBuilder().symlink("x", "/etc").file("x/evil", "1"));  // leads to nothing in this layer
    CHECK(outside.type("x") == 'd');
    CHECK(outside.content("x/evil") == "1");
}

TEST_CASE("hostile row 3: nothing but a directory may be the root", "[unpack][hostile]") {
    for (const char* name : {"/.", "/", ".", "./", "a/.."}) {
        CHECK_THROWS_WITH(Layer(TarBuilder().symlink(name, "/etc")), Catch::Contains("replace the root"));
        CHECK_THROWS_WITH(Layer(TarBuilder().item({.name = name, .type = '6'})), Catch::Contains("replace the root"));
        CHECK_THROWS_AS(Layer(TarBuilder().file("f", "").hardlink(name, "f")), Error);
    }
    CHECK_THAT(Layer(TarBuilder().directory("./", 0711)).squashfs.listing(), Catch::StartsWith("drwx--x--x"));
}

TEST_CASE("hostile row 4: a file where a symlink was replaces the symlink, not its target", "[unpack][hostile]") {
    Layer layer(TarBuilder().file("target", "kept").symlink("link", "target").file("link", "new"));
    CHECK(layer.type("link") == '-');
    CHECK(layer.content("link") == "new");
    CHECK(layer.content("target") == "kept");
}

TEST_CASE("hostile row 5: hard links to what is outside, missing or a directory are refused", "[unpack][hostile]") {
    for (const char* target : {"../../etc/passwd", "/etc/passwd", "missing", "dir", "/", "later", ""})
        CHECK_THROWS_AS(Layer(TarBuilder().directory("dir").hardlink("h", target).file("later", "")), Error);
    Layer layer(TarBuilder()
                    .symlink("s", "/etc/passwd")
                    .hardlink("h", "s")
                    .file("f", "data")
                    .hardlink("./g", "/f")
                    .hardlink("f", "f"));
    CHECK(layer.type("h") == 'l');
    CHECK_THAT(layer.squashfs.line("h"), Catch::EndsWith("-> /etc/passwd"));
    CHECK(layer.content("g") == "data");
    CHECK(layer.content("f") == "data");
}

TEST_CASE("hostile row 6: device nodes are skipped and counted", "[unpack][hostile]") {
    Layer layer(
        TarBuilder().item({.name = "dev/sda", .type = '4'}).item({.name = "dev/mem", .type = '3'}).file("f", ""));
    CHECK(layer.skipped == 2);
    CHECK(layer.entries == 2);
    CHECK_FALSE(layer.has("dev/sda"));
}

TEST_CASE("hard links to what is left out are left out, too", "[unpack]") {
    Layer layer(TarBuilder()
                    .directory("dev")
                    .item({.name = "dev/null", .type = '3'})
                    .hardlink("dev/other", "dev/null")
                    .hardlink("dev/third", "./dev/other")
                    .file(".wh..wh.aufs", "")
                    .hardlink("of-aufs", ".wh..wh.aufs")
                    .symlink("d", "dev")
                    .hardlink("through", "d/null")
                    .file("f", "kept"));
    CHECK(layer.skipped == 1);
    for (const char* name : {"dev/null", "dev/other", "dev/third", "of-aufs", "through"}) CHECK_FALSE(layer.has(name));
    CHECK(layer.content("f") == "kept");
    // A name that has become a file again is one.
    Layer again(TarBuilder().item({.name = "a", .type = '3'}).file("a", "now").hardlink("b", "a"));
    CHECK(again.content("b") == "now");
    CHECK_THROWS_WITH(Layer(TarBuilder().item({.name = "a", .type = '3'}).hardlink("b", "c")),
                      Catch::Contains("no such file"));
}

TEST_CASE("files of which AUFS kept the bytes in a folder of its own are there under their names", "[unpack]") {
    Layer layer(TarBuilder()
                    .directory(".wh..wh.plnk", 0700)
                    .file(".wh..wh.plnk/3.5", "bytes", 0755)
                    .hardlink("bin/one", ".wh..wh.plnk/3.5")
                    .hardlink("bin/two", ".wh..wh.plnk/3.5")
                    .file("first", "of a link")
                    .hardlink(".wh..wh.plnk/4.5", "first")
                    .hardlink("second", ".wh..wh.plnk/4.5")
                    .file(".wh..wh.plnk/unused", "gone")
                    .file(".wh..wh.orph/x", "gone"));
    CHECK(layer.content("bin/one") == "bytes");
    CHECK(layer.content("bin/two") == "bytes");
    CHECK(layer.content("second") == "of a link");
    CHECK_THAT(layer.squashfs.line("bin/one"), Catch::StartsWith("-rwxr-xr-x"));
    CHECK_FALSE(layer.has(".wh..wh.plnk"));
    CHECK_FALSE(layer.has(".wh..wh.orph"));
    CHECK(layer.entries == 6);
}

TEST_CASE("hostile: names that are left out take no more memory than others", "[unpack][hostile]") {
    TarBuilder tar;
    for (unsigned i = 0; i < 100; ++i) tar.item({.name = cat(i, std::string(90, 'n')), .type = '3'});
    CHECK_THROWS_WITH(Layer(tar, {.tree_bytes = 10'000}), Catch::Contains("take more than"));
}

TEST_CASE("hostile row 7: FIFOs are kept and never opened", "[unpack][hostile]") {
    CHECK(Layer(TarBuilder().item({.name = "pipe", .type = '6', .mode = 0600})).type("pipe") == 'p');
}

TEST_CASE("hostile row 8: of duplicate entries the last wins", "[unpack][hostile]") {
    Layer layer(TarBuilder()
                    .file("f", "1")
                    .file("./f", "2")
                    .directory("d")
                    .file("d/x", "")
                    .file("d", "now a file")
                    .symlink("l", "a")
                    .directory("l"));
    CHECK(layer.content("f") == "2");
    CHECK(layer.content("d") == "now a file");
    CHECK_FALSE(layer.has("d/x"));
    CHECK(layer.type("l") == 'd');
}

TEST_CASE("hostile row 9: a parent that is no directory becomes one", "[unpack][hostile]") {
    Layer layer(TarBuilder()
                    .file("f", "1")
                    .file("f/child", "2")
                    .symlink("loop", "loop")
                    .file("loop/child", "3")
                    .item({.name = "p", .type = '6'})
                    .file("p/q", "4"));
    CHECK(layer.type("f") == 'd');
    CHECK(layer.content("f/child") == "2");
    CHECK(layer.content("loop/child") == "3");
    CHECK(layer.content("p/q") == "4");
}

TEST_CASE("hostile row 10: bare whiteouts are refused", "[unpack][hostile]") {
    for (const char* name : {".wh.", "a/.wh.", ".wh..", ".wh...", "a/.wh...", ".wh.x/child", "a/.wh.b/c/d"})
        CHECK_THROWS_AS(Layer(TarBuilder().file(name, "")), Error);
    CHECK(kind_of_name("a/.wh.b") == NameKind::whiteout);
    CHECK(kind_of_name("a/.wh..b") == NameKind::whiteout);
    CHECK(kind_of_name(".wh....") == NameKind::whiteout);
    CHECK(kind_of_name(".wh..wh..opq") == NameKind::whiteout);
    CHECK(kind_of_name(".wh..wh.plnk") == NameKind::ignored);
    CHECK(kind_of_name(".wh..wh.plnk/1.2") == NameKind::ignored);
    CHECK(kind_of_name("x/.wh..wh.aufs") == NameKind::ignored);
    CHECK(kind_of_name("a.wh.b/.whx") == NameKind::plain);
}

TEST_CASE("hostile rows 11 and 12: whiteouts, opaque markers and the names they hide are all stored for the merge",
          "[unpack][hostile]") {
    Layer layer(TarBuilder()
                    .file("d/new", "1")
                    .file("d/.wh..wh..opq", "ignored")
                    .file("f", "2")
                    .file(".wh.f", "")
                    .directory(".wh.dir")
                    .file(".wh..wh.aufs", ""));
    CHECK(layer.content("d/new") == "1");
    CHECK(layer.content("d/.wh..wh..opq").empty());
    CHECK(layer.content("f") == "2");
    CHECK(layer.type(".wh.f") == '-');
    CHECK(layer.type(".wh.dir") == '-');
    CHECK_FALSE(layer.has(".wh..wh.aufs"));
}

TEST_CASE("hostile row 15: entries, depth and lengths are limited", "[unpack][hostile]") {
    CHECK_THROWS_WITH(Layer(TarBuilder().file("a", "").file("a", "").file("c", ""), {.entries = 2}),
                      Catch::Contains("more than 2 entries"));
    CHECK_THROWS_WITH(Layer(TarBuilder().file("a", "123").file("b", "456"), {.unpacked_bytes = 5}),
                      Catch::Contains("unpacks to more than"));
    auto deep = [](size_t depth) {
        std::string name;
        for (size_t i = 0; i < depth; ++i) name += "d/";
        return name;
    };
    CHECK(Layer(TarBuilder().pax({{"path", deep(1024)}}).directory("x")).entries == 1025);
    // Directories that are only implied, targets, and what other entries replace take memory like any other.
    TarBuilder implied, targets, replaced;
    for (unsigned i = 0; i < 20; ++i) {
        implied.pax({{"path", cat(i, "/", deep(1000), "f")}}).file("x", "");
        targets.pax({{"linkpath", std::string(4000, 't')}}).symlink(cat(i), "x");
        replaced.pax({{"path", deep(1000)}}).directory("x").file("d", "");
    }
    for (const TarBuilder* tar : {&implied, &replaced})
        CHECK_THROWS_WITH(Layer(*tar, {.tree_bytes = 4 << 20}), Catch::Contains("of memory"));
    CHECK_THROWS_WITH(Layer(targets, {.tree_bytes = 64 << 10}), Catch::Contains("of memory"));
    CHECK_THROWS_WITH(normalised_name(deep(1025)), Catch::Contains("deeper than 1024"));
    CHECK_THROWS_WITH(normalised_name(std::string(1 << 20, 'x')), Catch::Contains("4096"));
    CHECK_THROWS_WITH(normalised_name("a/" + std::string(256, 'x')), Catch::Contains("255"));
    CHECK(normalised_name(std::string(255, 'x')).size() == 255);
    // A symlink to a deep directory, and a deep path below the symlink.
    CHECK_THROWS_WITH(Layer(TarBuilder()
                                .pax({{"path", deep(1000)}})
                                .directory("x")
                                .pax({{"linkpath", deep(1000)}})
                                .symlink("s", "x")
                                .pax({{"path", "s/" + deep(500)}})
                                .directory("x")),
                      Catch::Contains("too long once the symlinks"));
    CHECK_THROWS_WITH(Layer(TarBuilder().symlink("s", "")), Catch::Contains("without a target"));
    CHECK_THROWS_WITH(Layer(TarBuilder().gnu_long('K', std::string(4096, 'x')).symlink("s", "x")),
                      Catch::Contains("4095"));
}

TEST_CASE("hostile row 19: names that are not UTF-8 are byte-exact", "[unpack][hostile]") {
    std::string name = "caf\xe9\n\t\\\xff";
    Layer layer(TarBuilder().file(name, "x").pax({{"path", "p" + name}}).file("y", "z"));
    CHECK(sys::read_file(layer.extracted(name)) == "x");
    CHECK(sys::read_file(layer.extracted("p" + name)) == "z");
}

TEST_CASE("hostile row 20: only user xattrs survive, and none that overlayfs reads", "[unpack][hostile]") {
    Layer layer(TarBuilder()
                    .pax({{"SCHILY.xattr.user.kept", std::string("a\0b", 3)},
                          {"SCHILY.xattr.security.capability", "x"},
                          {"SCHILY.xattr.trusted.overlay.opaque", "y"},
                          {"SCHILY.xattr.user.overlay.opaque", "y"},
                          {"SCHILY.xattr.system.posix_acl_access", "z"},
                          {"SCHILY.xattr.user.empty", ""}})
                    .file("f", "")
                    .pax({{"SCHILY.xattr.user.link", "x"}})
                    .symlink("s", "f"));
    char names[256];
    ssize_t size = ::listxattr(layer.extracted("f").c_str(), names, sizeof names);
    REQUIRE(size >= 0);
    std::string list(names, static_cast<size_t>(size));
    CHECK(list.size() == sizeof "user.kept" + sizeof "user.empty");
    CHECK(::getxattr(layer.extracted("f").c_str(), "user.kept", names, sizeof names) == 3);
    CHECK_THROWS_AS(Layer(TarBuilder().pax({{"SCHILY.xattr.user.big", std::string(65537, 'x')}}).file("f", "")), Error);
    CHECK_THROWS_AS(Layer(TarBuilder().pax({{"SCHILY.xattr.user.", "x"}}).file("f", "")), Error);
    CHECK_THROWS_AS(Layer(TarBuilder().pax({{"SCHILY.xattr.user." + std::string(251, 'n'), "x"}}).file("f", "")),
                    Error);
    CHECK_THROWS_AS(Layer(TarBuilder().pax({{"SCHILY.xattr.user.a", "12345"}}).file("f", ""), {.xattr_bytes = 10}),
                    Error);
}

TEST_CASE("hostile row 21: setuid files are kept as data", "[unpack][hostile]") {
    Layer layer(TarBuilder().file("su", "x", 06755).directory("t", 01777));
    CHECK_THAT(layer.squashfs.line("su"), Catch::StartsWith("-rwsr-sr-x"));
    CHECK_THAT(layer.squashfs.line("t"), Catch::StartsWith("drwxrwxrwt"));
}

TEST_CASE("hostile row 22: sparse files, long names and hard links across 2^16 ids are exact", "[unpack][hostile]") {
    TarBuilder tar;
    std::string name(200, 'n');
    tar.pax({{"GNU.sparse.name", name}, {"GNU.sparse.size", "1000000"}, {"GNU.sparse.map", "5,3,999999,1"}})
        .file("x", "abcd");
    tar.gnu_long('L', name + "2").file("y", "long");
    tar.item({.name = "first", .content = "data", .uid = 5, .gid = 6});
    for (unsigned i = 0; i < 66'000; ++i) tar.item({.name = cat("f", i), .type = '6', .uid = i});
    tar.hardlink("second", "first");
    Layer layer(tar);
    std::string sparse = sys::read_file(layer.extracted(name, "first second 'nnn*'"));
    REQUIRE(sparse.size() == 1'000'000);
    CHECK(sparse.substr(4, 5) == std::string("\0abc\0", 5));
    CHECK(sparse.back() == 'd');
    CHECK(sys::read_file(layer.extracted(name + "2")) == "long");
    CHECK_THAT(layer.squashfs.line("second"), Catch::StartsWith("-rw-r--r-- 5/6"));
    struct stat one, two;
    REQUIRE(::stat(layer.extracted("first").c_str(), &one) == 0);
    REQUIRE(::stat(layer.extracted("second").c_str(), &two) == 0);
    CHECK(one.st_ino == two.st_ino);
    CHECK(two.st_nlink == 2);
}
