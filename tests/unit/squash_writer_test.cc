#include <sys/stat.h>
#include <sys/xattr.h>

#include <functional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/random_bytes.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::squash;
using fixtures::Squashfs;
using fixtures::TempFolder;

namespace {

void add_file(LayerWriter& writer, std::string_view path, std::string_view content,
              const Attributes& attributes = {.mode = 0644}) {
    writer.begin_file(path, attributes);
    writer.append(content);
    writer.end_file();
}

Squashfs write_squashfs(const TempFolder& folder, const std::string& name,
                        const std::function<void(LayerWriter&)>& fill, CompressorPool* pool = nullptr) {
    Fd fd = folder.create(name);
    LayerWriter writer(fd.get(), pool);
    fill(writer);
    writer.finish();
    return Squashfs(folder / name);
}

}  // namespace

TEST_CASE("an empty layer is a squashfs file with a root", "[squash]") {
    TempFolder folder;
    Squashfs made = write_squashfs(folder, "a", [](LayerWriter& w) {
        w.add_directory("", {.mode = 01777, .uid = 5, .gid = 6, .mtime = 1});
        CHECK(w.entries() == 1);
    });
    CHECK_THAT(made.listing(), Catch::StartsWith("drwxrwxrwt 5/6"));
    CHECK(std::filesystem::file_size(folder / "a") % 4096 == 0);
}

TEST_CASE("every kind of entry keeps its attributes and content", "[squash]") {
    TempFolder folder;
    std::string big = fixtures::random_bytes(300'000, 1);
    Squashfs made = write_squashfs(folder, "a", [&](LayerWriter& w) {
        add_file(w, "usr/bin/tool", big, {.mode = 04755, .uid = 0, .gid = 12, .mtime = 86400});
        add_file(w, "empty", "");
        add_file(w, "small", "hello\n");
        w.add_symlink("usr/lib", {.mode = 0777}, "../lib/x");
        w.add_special("fifo", {.mode = 0600}, S_IFIFO);
        w.add_special("sock", {.mode = 0600}, S_IFSOCK);
        w.add_hardlink("also", "small");
        w.add_directory("dir", {.mode = 0700, .uid = 70000, .gid = 4294967294U, .mtime = -5});
        w.add_hardlink("lib2", "usr/lib");
        add_file(w, ".wh.gone", "");
        CHECK(w.entries() == 13);
    });
    CHECK_THAT(made.line("usr/bin/tool"), Catch::StartsWith("-rwsr-xr-x 0/12") && Catch::Contains("300000 1970-01-02"));
    CHECK_THAT(made.line("usr"), Catch::StartsWith("drwxr-xr-x 0/0"));
    CHECK_THAT(made.line("dir"), Catch::StartsWith("drwx------ 70000/4294967294") && Catch::Contains("1970-01-01"));
    CHECK_THAT(made.line("usr/lib"), Catch::StartsWith("lrwxrwxrwx") && Catch::EndsWith("-> ../lib/x"));
    CHECK_THAT(made.line("lib2"), Catch::EndsWith("-> ../lib/x"));
    CHECK_THAT(made.line("fifo"), Catch::StartsWith("prw-------"));
    CHECK_THAT(made.line("sock"), Catch::StartsWith("srw-------"));
    CHECK_FALSE(made.line(".wh.gone").empty());
    CHECK(made.content("usr/bin/tool") == big);
    CHECK(made.content("empty").empty());
    CHECK(made.content("also") == "hello\n");
    made.extract(folder / "out");
    struct stat one, two;
    REQUIRE(::lstat((folder / "out/small").c_str(), &one) == 0);
    REQUIRE(::lstat((folder / "out/also").c_str(), &two) == 0);
    CHECK(one.st_ino == two.st_ino);
    CHECK(one.st_nlink == 2);
}

TEST_CASE("the same calls give the same bytes, whatever the number of threads", "[squash]") {
    TempFolder folder;
    auto fill = [](LayerWriter& w) {
        for (unsigned i = 0; i < 60; ++i)
            add_file(w, cat("d", i % 7, "/f", i), fixtures::random_bytes(i * 9001, i % 20),
                     {.uid = i, .xattrs = {{"user.n", cat(i)}}});
    };
    std::string first = write_squashfs(folder, "a", fill).bytes();
    CHECK((first == write_squashfs(folder, "b", fill).bytes()));
    for (PoolLimits limits :
         {PoolLimits{.threads = 4, .buffers = 64}, {.threads = 3, .buffers = 3}, {.threads = 16, .buffers = 5}}) {
        CompressorPool pool({}, limits);
        CHECK((first == write_squashfs(folder, "c", fill, &pool).bytes()));
    }
}

TEST_CASE("the last entry of a path wins", "[squash]") {
    TempFolder folder;
    Squashfs made = write_squashfs(folder, "a", [](LayerWriter& w) {
        add_file(w, "f", "old");
        w.add_hardlink("kept", "f");
        add_file(w, "f", "new");
        add_file(w, "d/x/y", "below");
        w.add_directory("d", {.mode = 0711});
        add_file(w, "gone/x/y", "below");
        add_file(w, "gone", "file");
        w.add_symlink("s", {}, "d");
        add_file(w, "s/child", "child");
        CHECK(w.entries() == 9);
    });
    CHECK(made.content("f") == "new");
    CHECK(made.content("kept") == "old");
    CHECK(made.content("d/x/y") == "below");
    CHECK_THAT(made.line("d"), Catch::StartsWith("drwx--x--x"));
    CHECK(made.content("gone") == "file");
    CHECK(made.content("s/child") == "child");
    CHECK_THAT(made.line("s"), Catch::StartsWith("drwxr-xr-x"));
}

TEST_CASE("hard links that cannot be are refused", "[squash]") {
    TempFolder folder;
    Fd fd = folder.create("a");
    LayerWriter w(fd.get(), {});
    w.add_directory("dir", {});
    CHECK_THROWS_WITH(w.add_hardlink("x", "missing"), "making the hard link x to missing: no such file in this layer");
    CHECK_THROWS_WITH(w.add_hardlink("x", "dir"), "making the hard link x to dir: a directory cannot be a hard link");
    CHECK_THROWS_AS(w.add_hardlink("x", ""), Error);
    CHECK_THROWS_AS(w.add_directory("a//b", {}), std::logic_error);
    CHECK_THROWS_AS(w.add_directory("../b", {}), std::logic_error);
}

TEST_CASE("symlinked parents are resolved inside the tree", "[squash]") {
    TempFolder folder;
    Fd fd = folder.create("a");
    LayerWriter w(fd.get(), {});
    w.add_directory("usr/lib", {});
    w.add_symlink("lib", {}, "usr/lib");
    w.add_symlink("abs", {}, "//usr/./lib/");
    w.add_symlink("usr/up", {}, "../../../lib");
    w.add_symlink("self", {}, "self");
    w.add_symlink("slash", {}, "/");
    w.add_symlink("nowhere", {}, "usr/none");
    CHECK(w.resolved("lib/x") == "usr/lib/x");
    CHECK(w.resolved("lib") == "lib");
    CHECK(w.resolved("abs/new/x") == "usr/lib/new/x");
    CHECK(w.resolved("usr/up/x") == "usr/lib/x");
    CHECK(w.resolved("slash/slash/lib/x") == "usr/lib/x");
    CHECK(w.resolved("self/x") == "self/x");
    CHECK(w.resolved("nowhere/x") == "nowhere/x");
    CHECK(w.resolved("none/lib/x") == "none/lib/x");
    CHECK(w.resolved("") == "");
}

TEST_CASE("large sparse files cost neither space nor much time", "[squash]") {
    TempFolder folder;
    constexpr uint64_t gap = 5ULL << 30;
    Squashfs made = write_squashfs(folder, "a", [](LayerWriter& w) {
        w.begin_file("sparse", {});
        w.append("head");
        w.append_zeros(gap);
        w.append("tail");
        w.end_file();
    });
    CHECK(std::filesystem::file_size(folder / "a") < 100'000);
    CHECK_THAT(made.line("sparse"), Catch::Contains(cat(gap + 8)));
    made.extract(folder / "out");
    Fd out = sys::open_file(folder / "out/sparse", O_RDONLY | O_CLOEXEC);
    std::string head(6, 'x'), tail(6, 'x');
    REQUIRE(sys::pread_exact(out.get(), head, 0, "sparse"));
    REQUIRE(sys::pread_exact(out.get(), tail, gap + 2, "sparse"));
    CHECK(head == std::string("head\0\0", 6));
    CHECK(tail == std::string("\0\0tail", 6));
}

TEST_CASE("xattrs, long names and large directories survive", "[squash]") {
    TempFolder folder;
    std::string long_name(255, 'n');
    Squashfs made = write_squashfs(folder, "a", [&](LayerWriter& w) {
        add_file(w, "x", "1", {.xattrs = {{"user.a", std::string("\0b", 2)}, {"user.c", ""}}});
        w.add_directory("d", {.xattrs = {{"user.dir", "v"}}});
        add_file(w, long_name, "2");
        for (unsigned i = 0; i < 6'000; ++i)
            add_file(w, cat("many/entry-with-a-longer-name-", i), i % 3 == 0 ? "same" : cat("content ", i));
    });
    made.extract(folder / "out");
    char value[16];
    CHECK(::getxattr((folder / "out/x").c_str(), "user.a", value, sizeof value) == 2);
    CHECK(::getxattr((folder / "out/x").c_str(), "user.c", value, sizeof value) == 0);
    CHECK(::getxattr((folder / "out/d").c_str(), "user.dir", value, sizeof value) == 1);
    CHECK(sys::read_file(folder / ("out/" + long_name)) == "2");
    CHECK(sys::read_file(folder / "out/many/entry-with-a-longer-name-9") == "same");
    CHECK(sys::read_file(folder / "out/many/entry-with-a-longer-name-5999") == "content 5999");
    CHECK(fixtures::run_command("ls '" + folder / "out/many" + "' | wc -l").output == "6000\n");
}

TEST_CASE("ids past the 65,535 of the format become nobody's", "[squash]") {
    TempFolder folder;
    Squashfs made = write_squashfs(folder, "a", [](LayerWriter& w) {
        for (uint32_t i = 0; i < 66'000; ++i) w.add_special(cat("f", i), {.uid = i + 100'000, .gid = 7}, S_IFIFO);
    });
    std::string all = made.listing();
    CHECK_THAT(made.line("f0"), Catch::Contains("100000/7"));
    CHECK(all.find(" 65534/7 ") != std::string::npos);
    CHECK(all.find(" 0/7 ") == std::string::npos);
    CHECK_THAT(made.statistics(), Catch::Contains("Number of uids 65535") || Catch::Contains("Number of ids 65535"));
}

TEST_CASE("a write that fails says why", "[squash]") {
    Fd full(::open("/dev/full", O_RDWR | O_CLOEXEC));
    CHECK_THROWS_WITH(LayerWriter(full.get(), {}), Catch::Contains("No space left on device"));
}
