#include "runtime/squash/flatten/flatten.hh"

#include <cstdlib>
#include <sys/mount.h>
#include <sys/stat.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/flatten/flatten_blocks.hh"
#include "runtime/squash/format/file_config.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using squash::test::TempFolder;

namespace {

/// Three layers with every kind of entry, of which the upper ones hide parts of the lower ones.
struct Layers {
    TempFolder folder;
    std::vector<Fd> files;
    std::vector<LayerInfo> infos;

    Layers() {
        add([](LayerWriter& writer) {
            writer.add_directory("", {.mode = 0755, .mtime = 5});
            file(writer, "bin/big", test::noise(700'000, 1), {.mode = 0755, .mtime = 100});
            file(writer, "bin/prose", test::prose(300'000, 2), {.uid = 7, .gid = 8, .xattrs = {{"user.note", "one"}}});
            file(writer, "bin/gone", test::noise(400'000, 3), {});
            writer.add_hardlink("bin/big2", "bin/big");
            writer.add_symlink("lib", {.mode = 0777}, "usr/lib");
            for (int i = 0; i < 300; ++i) file(writer, cat("small/f", i), cat("content ", i), {.mtime = i});
        });
        add([](LayerWriter& writer) {
            file(writer, "bin/.wh.gone", "", {});
            file(writer, "small/f7", "seven", {});
            file(writer, "empty", "", {.mode = 0600});
            writer.add_special("pipe", {.mode = 0622}, S_IFIFO);
            writer.begin_file("sparse", {});
            writer.append("begin");
            writer.append_zeros(1'000'000);
            writer.append("end");
            writer.end_file();
        });
        add([](LayerWriter& writer) {
            file(writer, "bin/third", test::prose(200'000, 4), {.mode = 04755, .xattrs = {{"user.note", "one"}}});
        });
    }

    static void file(LayerWriter& writer, const std::string& path, const std::string& content,
                     const Attributes& attributes) {
        writer.begin_file(path, attributes);
        writer.append(content);
        writer.end_file();
    }
    void add(const std::function<void(LayerWriter&)>& fill, CompressorPool* pool = nullptr) {
        files.push_back(folder.create(cat("layer", files.size())));
        LayerWriter writer(files.back().get(), pool);
        fill(writer);
        writer.mark_implied_directories(implied_directory_marker);
        writer.finish();
    }
    Tree merged() {
        infos.clear();
        std::vector<Tree> trees;
        for (Fd& file : files) {
            LayerInfo info;
            trees.push_back(read_tree(file.get(), "layer", static_cast<uint32_t>(infos.size()), info));
            infos.push_back(info);
        }
        return merge(std::move(trees));
    }
    /// The path of the flattened file.
    std::string flattened(const std::string& name, const FlattenForm& form = {}) {
        Fd out = folder.create(name);
        Tree tree = merged();
        uint64_t last = 0, all = 0;
        flatten(tree, files, infos, form, out.get(), name, [&](uint64_t bytes, uint64_t total) {
            CHECK(bytes >= last);
            last = bytes, all = total;
        });
        CHECK(last == all);
        return folder / name;
    }
};

std::string tree_of(const std::string& folder) {
    return fixtures::run_command(cat("cd '", folder,
                                     "' && find . -printf '%p %y %m %U %G %n %T@ %l\\n' | sort && find . -type f "
                                     "-print0 | sort -z | xargs -0 sha256sum"))
        .output;
}

}  // namespace

TEST_CASE("a flattened image is the merged tree, for unsquashfs and for our reader", "[squash]") {
    Layers layers;
    std::string flat = layers.flattened("flat");
    std::string out = layers.folder / "out";
    fixtures::Squashfs(flat).extract(out);
    CHECK(test::read_file(out + "/bin/big") == test::noise(700'000, 1));
    CHECK(test::read_file(out + "/bin/prose") == test::prose(300'000, 2));
    CHECK(test::read_file(out + "/bin/third") == test::prose(200'000, 4));
    CHECK(test::read_file(out + "/small/f7") == "seven");
    CHECK(test::read_file(out + "/small/f299") == "content 299");
    CHECK(test::read_file(out + "/sparse") == "begin" + std::string(1'000'000, '\0') + "end");
    CHECK_FALSE(std::filesystem::exists(out + "/bin/gone"));
    struct stat st {};
    REQUIRE(::stat((out + "/bin/big").c_str(), &st) == 0);
    CHECK(st.st_nlink == 2);
    CHECK(st.st_mtime == 100);
    CHECK_THAT(fixtures::Squashfs(flat).listing(), Catch::Contains("lib -> usr/lib") && Catch::Contains("prw--w--w-"));

    auto opened = test::open_image(flat);
    test::require_same(opened, out);
    uint32_t third = test::at_path(opened.index, "bin/third");
    CHECK(opened.index.xattr(third, "user.note") == "one");
    CHECK(opened.index.inode(third)->mode == (S_IFREG | 04755));

    // Nothing of the file that was removed is copied.
    uint64_t kept = 0;
    for (int i = 0; i < 3; ++i) kept += std::filesystem::file_size(layers.folder / cat("layer", i));
    CHECK(std::filesystem::file_size(flat) < kept - 390'000);
    layers.flattened("again");
    CHECK(fixtures::Squashfs(flat).bytes() == fixtures::Squashfs(layers.folder / "again").bytes());
}

TEST_CASE("a flattened image is the same tree for the kernel", "[squash]") {
    Layers layers;
    std::string flat = layers.flattened("flat"), out = layers.folder / "out", mounted = layers.folder / "mounted";
    fixtures::Squashfs(flat).extract(out);
    std::filesystem::create_directory(mounted);
    auto result =
        fixtures::run_command(cat("unshare --mount --propagation private sh -ec 'mount -t squashfs -o loop,ro ", flat,
                                  " ", mounted, "; cd ", mounted,
                                  "; find . -printf \"%p %y %m %U %G %n %T@ %l\\n\" | sort; find . -type f -print0 | "
                                  "sort -z | xargs -0 sha256sum'"));
    if (result.status != 0) {
        if (std::getenv("BERTH_MUST_RUN") != nullptr) FAIL(result.output);
        WARN("not tested: the kernel's mount needs root and loop devices: " << result.output);
        return;
    }
    CHECK(result.output == tree_of(out));
}

TEST_CASE("copied blocks lie in the blocks of a file system as they did in their layers", "[squash]") {
    TempFolder folder;
    std::string bytes = test::noise(100'000, 9);
    Fd layer = folder.create("layer"), flat = folder.create("flat");
    sys::write_all(layer.get(), bytes, "layer");
    std::vector<std::pair<uint64_t, uint64_t>> wanted{{96, 5'000}, {9'000, 1}, {12'288, 8'192}, {30'000, 69'999}};
    BlockRanges ranges;
    for (auto [start, size] : wanted) ranges.add(start, size);
    uint64_t position = GENERATE(0, 96, 4'096, 5'000), total = ranges.join();
    CHECK(total == 5'000 + 1 + 8'192 + 69'999);
    uint64_t told = 0;
    ranges.copy(layer.get(), flat.get(), 0, position, "flat", [&](uint64_t copied) { told += copied; });
    CHECK(told == total);
    std::string copied = test::read_file(folder / "flat");
    for (auto [start, size] : wanted) {
        uint64_t moved = ranges.moved(start);
        CHECK(moved % 4'096 == start % 4'096);
        CHECK((copied.substr(moved, size) == bytes.substr(start, size)));
    }
}

TEST_CASE("files are added to a flattened image, but not below what is no directory", "[squash]") {
    Layers layers;
    std::string content = test::noise(300'000, 9);
    std::string flat = layers.flattened(
        "flat", {{{"etc/rc", content}, {"small/f8", "new"}, {"lib/x", "not through a symlink"}, {"empty.txt", ""}}});
    fixtures::Squashfs image(flat);
    CHECK(image.content("etc/rc") == content);
    CHECK(image.content("small/f8") == "new");
    CHECK(image.content("empty.txt").empty());
    CHECK_THAT(image.line("lib"), Catch::StartsWith("l"));
    auto opened = test::open_image(flat);
    CHECK(test::content_of(opened, test::at_path(opened.index, "etc/rc")) == content);
}

TEST_CASE("links and directories are added to a flattened image", "[squash]") {
    Layers layers;
    fixtures::Squashfs image(layers.flattened(
        "flat", {{{"etc/link", "../bin/big", S_IFLNK}, {"etc/folder", "", S_IFDIR | 0750}, {"etc/run", "x", 0755}}}));
    CHECK_THAT(image.line("etc/link"), Catch::StartsWith("lrwxrwxrwx"));
    CHECK_THAT(image.listing(), Catch::Contains("/etc/link -> ../bin/big"));
    CHECK_THAT(image.line("etc/folder"), Catch::StartsWith("drwxr-x---"));
    CHECK_THAT(image.line("etc/run"), Catch::StartsWith("-rwxr-xr-x"));
}

TEST_CASE("an image is flattened to a place in a file, with nothing before it touched", "[squash]") {
    Layers layers;
    constexpr uint64_t start = 12'288;
    std::string whole = test::read_file(layers.flattened("whole"));
    Tree tree = layers.merged();
    Fd out = layers.folder.create("flat");
    sys::write_all(out.get(), std::string(start, 'h'), "flat");
    flatten(tree, layers.files, layers.infos, {.start = start}, out.get(), "flat");
    std::string bytes = test::read_file(layers.folder / "flat");
    CHECK((bytes.substr(0, start) == std::string(start, 'h')));
    CHECK((bytes.substr(start) == whole));
}

TEST_CASE("all blocks of a flattened image are packed as it is asked for", "[squash]") {
    auto codec = GENERATE(Codec::gzip, Codec::lz4, Codec::zstd, Codec::none);
    Layers layers;
    std::string flat = layers.flattened("flat", {.compression = Compression{codec, 0}}), out = layers.folder / "out";
    auto opened = test::open_image(flat);
    CHECK(opened.index.layers()[0].codec == stored_codec(codec));
    fixtures::Squashfs(flat).extract(out);
    test::require_same(opened, out);
    CHECK(test::read_file(out + "/bin/prose") == test::prose(300'000, 2));
    CHECK(test::read_file(out + "/small/f299") == "content 299");
    CHECK(test::read_file(out + "/sparse") == "begin" + std::string(1'000'000, '\0') + "end");
    layers.flattened("again", {.compression = Compression{codec, 0}});
    CHECK(fixtures::Squashfs(flat).bytes() == fixtures::Squashfs(layers.folder / "again").bytes());
}

TEST_CASE("an image without layers is flattened to an empty root", "[squash]") {
    TempFolder folder;
    Fd out = folder.create("flat");
    flatten(merge({}), {}, {}, {}, out.get(), "flat");
    CHECK(test::open_image(folder / "flat").index.inode_count() == 1);
}

TEST_CASE("layers that are packed in different ways become one file", "[squash]") {
    Layers layers;
    CompressorPool lz4({Codec::lz4, 0}, {.threads = 2, .buffers = 8, .block_size = 16 << 10}),
        none({Codec::none, 0}, {});
    auto fill = [](LayerWriter& writer, const std::string& folder) {
        Layers::file(writer, folder + "/large", test::prose(500'000, 5), {.mode = 0640});
        writer.add_hardlink(folder + "/link", folder + "/large");
        for (int i = 0; i < 200; ++i) Layers::file(writer, cat(folder, "/f", i), cat(folder, " ", i), {});
        writer.begin_file(folder + "/sparse", {});
        writer.append_zeros(400'000);
        writer.append("end");
        writer.end_file();
        Layers::file(writer, folder + "/empty", "", {});
    };
    layers.add([&](LayerWriter& writer) { fill(writer, "lz4"); }, &lz4);
    layers.add([&](LayerWriter& writer) { fill(writer, "none"); }, &none);
    std::string flat = layers.flattened("flat"), out = layers.folder / "out";
    fixtures::Squashfs(flat).extract(out);
    auto opened = test::open_image(flat);
    CHECK(opened.index.layers()[0].codec == Codec::zstd);
    for (std::string folder : {"lz4", "none"}) {
        CHECK(test::read_file(out + "/" + folder + "/link") == test::prose(500'000, 5));
        CHECK(test::read_file(cat(out, "/", folder, "/f199")) == folder + " 199");
        CHECK(test::read_file(out + "/" + folder + "/sparse") == std::string(400'000, '\0') + "end");
        CHECK(test::read_file(out + "/" + folder + "/empty").empty());
        CHECK(test::content_of(opened, test::at_path(opened.index, folder + "/large")) == test::prose(500'000, 5));
    }
    CHECK(test::read_file(out + "/bin/big") == test::noise(700'000, 1));
    CHECK(test::read_file(out + "/small/f299") == "content 299");
}

TEST_CASE("a damaged layer that would be packed anew is named", "[squash]") {
    Layers layers;
    CompressorPool gzip({Codec::gzip, 0}, {});
    layers.add([&](LayerWriter& writer) { Layers::file(writer, "more", test::prose(500'000, 5), {}); }, &gzip);
    Tree tree = layers.merged();
    REQUIRE(::pwrite(layers.files.back().get(), "damage damage damage", 20, 100) == 20);
    Fd out = layers.folder.create("flat");
    CHECK_THROWS_WITH(flatten(tree, layers.files, layers.infos, {}, out.get(), "flat"),
                      "writing flat: a layer is damaged; run berth verify --repair");
}

TEST_CASE("layers that are packed in different ways are brought to the way of most of their bytes", "[squash]") {
    if (!test::have_mksquashfs()) return;
    Layers layers;
    std::string folder = layers.folder / "tree";
    std::filesystem::create_directories(folder + "/other");
    // Whole blocks, a tail, zeros, holes, tails that share a fragment, nothing at all, and what does not compress.
    test::write_file(folder + "/other/noise", test::noise(300'000, 7));
    test::write_file(folder + "/other/prose", test::prose(262'144 + 99, 8));
    test::write_file(folder + "/other/zeros", std::string(400'000, '\0'));
    test::write_file(folder + "/other/short zeros", std::string(10, '\0'));
    test::write_file(folder + "/other/none", "");
    for (int i = 0; i < 50; ++i)
        test::write_file(folder + cat("/other/f", i), test::prose(static_cast<size_t>(i) * 301, 9));
    std::string options = GENERATE(std::string("-comp gzip -b 4K"), std::string("-comp xz -b 1M"),
                                   std::string("-comp lzo"), std::string("-comp zstd -b 256K"));
    bool large = GENERATE(false, true);
    if (large) test::write_file(folder + "/other/large", test::prose(6'000'000, 10));
    CAPTURE(options, large);
    test::make_image(folder, layers.folder / "foreign", options);
    layers.files.push_back(sys::open_file(layers.folder / "foreign", O_RDONLY));
    std::string flat = layers.flattened("flat"), out = layers.folder / "out";
    std::string kept =
        large && options.find("lzo") == options.npos ? options.substr(6, options.find(' ', 6) - 6) : "zstd";
    CHECK_THAT(fixtures::Squashfs(flat).statistics(), Catch::Contains("Compression " + kept));
    fixtures::Squashfs(flat).extract(out);
    CHECK(fixtures::run_command(cat("cd ", folder, " && find other -type f | while read -r f; do cmp \"$f\" \"", out,
                                    "/$f\" || exit 1; done"))
              .output.empty());
    CHECK(test::read_file(out + "/bin/big") == test::noise(700'000, 1));
    CHECK(test::read_file(out + "/sparse") == "begin" + std::string(1'000'000, '\0') + "end");
    CHECK(test::read_file(out + "/small/f299") == "content 299");
    auto opened = test::open_image(flat);
    test::require_same(opened, out);
}

TEST_CASE("a squashfs file carries process settings, whatever is in them", "[squash]") {
    Layers layers;
    std::string flat = layers.flattened("flat");
    Fd file = sys::open_file(flat, O_RDWR);
    CHECK_FALSE(read_config(file.get(), "flat"));
    FileConfig config{{{"A=line\nenv 3\n", "B="}, {"/bin/sh", "-c"}, {"a b", ""}, "/w", "u", "amd64", {"/v"}},
                      "sha256:x",
                      "r.io/a:1"};
    append_config(file.get(), config, "flat");
    auto read = read_config(file.get(), "flat");
    REQUIRE(read);
    CHECK(read->process.env == config.process.env);
    CHECK(read->process.entrypoint == config.process.entrypoint);
    CHECK(read->process.cmd == config.process.cmd);
    CHECK(read->process.working_dir == "/w");
    CHECK(read->process.volumes == config.process.volumes);
    CHECK(read->reference == "r.io/a:1");
    CHECK(fixtures::Squashfs(flat).content("small/f7") == "seven");
    // Damage is no config, and no crash.
    uint64_t size = std::filesystem::file_size(flat);
    for (uint64_t at = size - 4096; at < size - 3500; ++at) {
        char byte = '9', before = 0;
        REQUIRE(::pread(file.get(), &before, 1, static_cast<off_t>(at)) == 1);
        REQUIRE(::pwrite(file.get(), &byte, 1, static_cast<off_t>(at)) == 1);
        // "berth-config 9" is what a newer release may write: its settings are not left out unsaid.
        if (at == size - 4096 + std::string_view("berth-config ").size())
            CHECK_THROWS_WITH(read_config(file.get(), "flat"), Catch::Contains("they have form 9, this berth reads 1"));
        else
            CHECK_NOTHROW(read_config(file.get(), "flat"));
        REQUIRE(::pwrite(file.get(), &before, 1, static_cast<off_t>(at)) == 1);
    }
    REQUIRE(::ftruncate(file.get(), static_cast<off_t>(size - 4096 + 100)) == 0);
    CHECK_FALSE(read_config(file.get(), "flat"));
}
