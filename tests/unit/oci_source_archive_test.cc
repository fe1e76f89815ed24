// Archives as libarchive reads them: compressions, root file systems, and what is refused.
#include <archive.h>
#include <sys/stat.h>

#include <chrono>

#include "runtime/base/sys.hh"
#include "runtime/oci/source/files.hh"
#include "tests/fixtures/compress.hh"
#include "tests/unit/oci_source_support.hh"

using namespace berth;
using namespace berth::test;
using Catch::Contains;

namespace {

const std::string skippable_frame("\x50\x2a\x4d\x18\x04\0\0\0abcd", 12);

FileMap saved() {
    std::string config = config_of(layer_tar());
    return {{"config.json", config},
            {"layer.tar", layer_tar()},
            {"manifest.json", R"([{"Config":"config.json","RepoTags":["a:1"],"Layers":["layer.tar"]}])"}};
}

std::string root_tar() {
    return fixtures::TarBuilder().directory("./").directory("./etc/").file("./etc/os", "PRETTY=base\n").finished();
}

std::shared_ptr<const oci::Files> opened(const SourceScene& scene, const std::string& bytes,
                                         const oci::Advance& advance = {}) {
    std::string file = scene.write("opened.tar", bytes);
    return oci::open_archive(
        oci::open_archive_file(file, "image a"), "image a", [&] { return scene.folder.create("scratch"); }, advance);
}

std::string content(const oci::Files& files, const std::string& name) {
    auto piece = files.find(name);
    return piece ? oci::read_piece(*piece, 1 << 20, "image a") : "(absent)";
}

}  // namespace

TEST_CASE("an archive may have any compression that libarchive knows", "[source]") {
    SourceScene scene;
    std::string how = GENERATE("xz", "bzip2", "lz4", "lzip", "lzma", "compress");
    INFO(how);
    std::string bytes = fixtures::compressed(tar_of(saved()), how);
    std::string digest = scene.pull("docker-archive:" + scene.write("a.tar", bytes));
    CHECK(scene.os_of(digest) == "PRETTY=base\n");
    CHECK(scene.count("tmp") == 0);
    // Neither the content of a plain archive nor that of a compressed one depends on how it came.
    CHECK(scene.pull("docker-archive:" + scene.write("b.tar", tar_of(saved()))) == digest);
    uint64_t read = 0;
    opened(scene, bytes, [&](uint64_t more) { read += more; });
    CHECK(read == bytes.size());
}

TEST_CASE("an archive of zstd may begin with a frame to be skipped", "[source]") {
    SourceScene scene;
    std::string file = scene.write("a.tar", skippable_frame + fixtures::zstd(tar_of(saved())));
    CHECK(scene.os_of(scene.pull("docker-archive:" + file)) == "PRETTY=base\n");
}

TEST_CASE("the last of several entries of one name counts, and names may hold any byte", "[source]") {
    SourceScene scene;
    std::string odd = "caf\xc3\xa9 e\xcc\x81 \xff";
    std::string tar = fixtures::TarBuilder()
                          .file("a", "first")
                          .file("./a", "last")
                          .pax({{"path", odd}})
                          .file("x", "pax")
                          .file("\xff\xfe", "raw")
                          .gnu_long('L', std::string(300, 'l'))
                          .file("l", "long")
                          .finished();
    auto files = opened(scene, tar);
    CHECK(content(*files, "a") == "last");
    CHECK(content(*files, odd) == "pax");
    CHECK(content(*files, "\xff\xfe") == "raw");
    CHECK(content(*files, std::string(300, 'l')) == "long");
    CHECK(files->root_file_system());
}

TEST_CASE("zeros may follow the compression of an archive, as bsdtar writes it to a pipe", "[source]") {
    SourceScene scene;
    std::string how = GENERATE("gzip", "zstd", "xz", "bzip2");
    INFO(how);
    std::string plain = scene.pull("docker-archive:" + scene.write("plain.tar", tar_of(saved())));
    std::string root = scene.pull("docker-archive:" + scene.write("root.tar", root_tar()));
    auto padded = [&](const std::string& tar) {
        std::string bytes = fixtures::compressed(tar, how);
        bytes.resize((bytes.size() / 10240 + 1) * 10240);
        return bytes;
    };
    CHECK(scene.pull("docker-archive:" + scene.write("a.tar", padded(tar_of(saved())))) == plain);
    CHECK(scene.pull("docker-archive:" + scene.write("b.tar", padded(root_tar()))) == root);
    uint64_t read = 0;
    std::string bytes = padded(root_tar());
    opened(scene, bytes, [&](uint64_t more) { read += more; });
    CHECK(read == bytes.size());
    SourceScene other;
    CHECK_THAT(other.failure("docker-archive:" + other.write("a.tar", padded(root_tar()) + "x")),
               Contains("unpacking the archive"));
}

TEST_CASE("members of an archive may be sparse, in every form that GNU tar writes", "[source]") {
    SourceScene scene;
    std::string how = GENERATE("--format=gnu", "--format=pax --sparse-version=0.0",
                               "--format=pax --sparse-version=0.1", "--format=pax --sparse-version=1.0");
    INFO(how);
    std::string hole(1 << 20, '\0'), layer = layer_tar();
    // The archive of docker save of an image whose layer has its bytes behind and between holes.
    std::string inner = fixtures::TarBuilder()
                            .directory("etc/")
                            .file("etc/hole", hole)
                            .file("etc/os", "PRETTY=base\n")
                            .file("etc/more", hole + "x")
                            .finished();
    FileMap files = saved();
    files["layer.tar"] = inner + hole;
    files["config.json"] = config_of(inner + hole);
    files["all-hole"] = hole;
    files["first"] = hole + "end";
    std::string folder = scene.write("files", files), tar = scene.folder / "a.tar";
    fixtures::run_command(
        cat("cd '", folder, "' && for f in *; do cp --sparse=always \"$f\" \"$f.s\" && mv \"$f.s\" \"$f\"; ",
            "done; tar -c -S --hole-detection=raw ", how, " -f '", tar, "' ."));
    REQUIRE(std::filesystem::file_size(tar) < 200'000);
    auto opened_files =
        oci::open_archive(oci::open_archive_file(tar, "image a"), "image a", [&] { return scene.folder.create("s"); });
    CHECK((content(*opened_files, "all-hole") == hole));
    auto first = opened_files->find("first");
    REQUIRE(first);
    CHECK((oci::read_piece(*first, 2 << 20, "image a") == files["first"]));
    CHECK(scene.os_of(scene.pull("docker-archive:" + tar)) == "PRETTY=base\n");
    // And a root file system with holes.
    std::string root = scene.folder / "root.tar";
    std::string tree = scene.write("root", FileMap{{"etc/os", "PRETTY=base\n"}});
    fixtures::run_command(
        cat("cd '", tree, "' && truncate -s 1M etc/hole && tar -c -S ", how, " -f '", root, "' etc"));
    CHECK(scene.os_of(scene.pull("docker-archive:" + root)) == "PRETTY=base\n");
}

TEST_CASE("a root file system is told by what is in it, whatever the application calls its files", "[source]") {
    SourceScene scene;
    auto os = [&](const FileMap& files) {
        std::string tar = scene.write("a.tar", tar_of(files));
        pull::Options options;
        options.policy = pull::Policy::always;
        return scene.os_of(scene.pull("docker-archive:" + tar, options));
    };
    // No directory has an entry.
    CHECK(os({{"etc/os", "PRETTY=1\n"}}) == "PRETTY=1\n");
    CHECK(os({{"./etc/os", "PRETTY=2\n"}, {"./manifest.json", R"({"name":"an application of the web"})"}}) ==
          "PRETTY=2\n");
    CHECK(os({{"etc/os", "PRETTY=3\n"}, {"manifest.json", "[1,2]"}, {"oci-layout", "x"}}) == "PRETTY=3\n");
    CHECK(os({{"etc/os", "PRETTY=4\n"}, {"oci-layout", R"({"imageLayoutVersion":"1.0.0"})"}}) == "PRETTY=4\n");
    // Of an image FROM scratch.
    CHECK(opened(scene, tar_of({{"hello", "x"}, {"data/hello", "y"}}))->root_file_system());
    CHECK(opened(scene, fixtures::TarBuilder().symlink("bin", "usr/bin").finished())->root_file_system());
    // What is an image stays one, and what may have been one is not run as something else.
    CHECK_FALSE(opened(scene, tar_of(saved()))->root_file_system());
    Layout layout;
    layout.entries = {layout.entry(layout.image(), "")};
    layout.close();
    CHECK_FALSE(opened(scene, tar_of(layout.files))->root_file_system());
    std::string hex(64, 'a');
    for (const FileMap& files : {FileMap{{hex + "/layer.tar", "x"}}, FileMap{{hex + ".json", "x"}},
                                 FileMap{{"blobs/sha256/" + hex, "x"}}, FileMap{{"manifest.json", "[]"}},
                                 FileMap{{"oci-layout", "x"}}, FileMap{{"repositories", "{}"}}})
        CHECK_FALSE(opened(scene, tar_of(files))->root_file_system());
}

TEST_CASE("files of a root file system that an image cannot have are told", "[source]") {
    SourceScene scene;
    auto warnings = [&](const std::string& tar) {
        pull::Meter meter("a.tar");
        pull::pull(scene.store(), plan::parse_reference("docker-archive:" + scene.write("a.tar", tar)), {}, meter);
        std::vector<std::string> out;
        for (const pull::Event& event : meter.take_events())
            if (event.kind == pull::Event::Kind::warning) out.push_back(event.text);
        return out;
    };
    CHECK(warnings(root_tar()).empty());
    auto told =
        warnings(fixtures::TarBuilder().directory("etc/").file("etc/.wh.x", "y").file("etc/.wh.z", "").finished());
    REQUIRE(told.size() == 1);
    CHECK_THAT(told[0], Contains("etc/.wh.x"));
}

TEST_CASE("the end of an archive may lack its zeros and the padding of the last file", "[source]") {
    SourceScene scene;
    std::string tar = fixtures::TarBuilder().file("a", "first").file("b", "second").bytes();
    for (size_t missing : {0, 500, 506}) {
        INFO(missing);
        CHECK(content(*opened(scene, tar.substr(0, tar.size() - missing)), "b") == "second");
    }
    CHECK_THROWS_WITH(opened(scene, tar.substr(0, tar.size() - 507)), Contains("cut off inside b"));
}

TEST_CASE("a root file system of docker export is an image of one layer", "[source]") {
    SourceScene scene;
    std::string plain = "docker-archive:" + scene.write("a.tar", root_tar());
    std::string digest = scene.pull(plain);
    CHECK(scene.os_of(digest) == "PRETTY=base\n");
    CHECK_THAT(scene.store().read_document(Digest(digest), "config.json"),
               Contains(oci::sha256_of(root_tar()).text()));
    // However it is compressed: the same digest.
    for (const std::string& bytes : {fixtures::gzip(root_tar()), fixtures::compressed(root_tar(), "xz")})
        CHECK(scene.pull("docker-archive:" + scene.write("b.tar", bytes)) == digest);
    CHECK(scene.count("layers") == 1);
    SourceScene other;
    std::string file = other.write("a.tar", root_tar());
    CHECK_THAT(other.failure("docker-archive:" + file + ":debian:12"),
               Contains("root file system, which has no names"));
    CHECK_THAT(other.failure("oci-archive:" + file), Contains("no oci-layout"));
}

TEST_CASE("a root file system may have more entries than an archive of an image", "[source]") {
    SourceScene scene;
    fixtures::TarBuilder tar;
    std::string one = fixtures::TarBuilder().file("x", "").bytes(), all = tar.directory("usr/").bytes();
    for (size_t i = 0; i <= oci::archive_entry_limit; ++i) all += one;
    auto root = opened(scene, all)->root_file_system();
    REQUIRE(root);
    CHECK(root->size == all.size());
}

TEST_CASE("the reading of a root file system is told by its bytes", "[source][progress]") {
    SourceScene scene;
    std::string tar = root_tar();
    pull::Meter meter("a.tar");
    pull::pull(scene.store(), plan::parse_reference("docker-archive:" + scene.write("a.tar", tar)), {}, meter);
    std::vector<std::string> titles;
    for (const pull::Event& event : meter.take_events())
        if (event.kind == pull::Event::Kind::phase && event.phase == pull::Phase::reading) {
            CHECK(event.total == tar.size());
            titles.push_back(event.text);
        }
    REQUIRE(titles.size() == 2);
    CHECK_THAT(titles[1], Contains("root file system"));
}

TEST_CASE("hostile row 14: an archive with a manifest of 1 GB of zeros takes neither memory nor disk",
          "[source][hostile]") {
    SourceScene scene;
    constexpr uint64_t mib = 1 << 20, count = 1024;
    std::string header =
        fixtures::TarBuilder()
            .item({.name = "manifest.json", .size_field = fixtures::TarBuilder::number(mib * count, 12)})
            .bytes();
    std::string zeros = fixtures::gzip(std::string(mib, '\0')), packed = fixtures::gzip(header);
    for (uint64_t i = 0; i < count; ++i) packed += zeros;
    std::string file = scene.write("a.tar", packed + fixtures::gzip(std::string(1024, '\0')));
    CHECK_THAT(scene.failure("docker-archive:" + file),
               Contains("manifest.json has 1073741824 bytes, more than the limit of"));
    struct stat st = {};
    Fd scratch;
    oci::open_archive(oci::open_archive_file(file, "image a"), "image a", [&] {
        Fd made = scene.folder.create("scratch");
        scratch = sys::open_file(scene.folder / "scratch", O_RDONLY);
        return made;
    });
    REQUIRE(::fstat(scratch.get(), &st) == 0);
    CHECK(static_cast<uint64_t>(st.st_size) == mib * count + 1536);
    CHECK(st.st_blocks < 64 * 2);
}

TEST_CASE("hostile row 14: an archive that is compressed many times over", "[source][hostile]") {
    SourceScene scene;
    unsigned depth = GENERATE(2U, 3U, 24U, 30U);
    std::string bytes = tar_of(saved());
    for (unsigned i = 0; i < depth; ++i)
        bytes = fixtures::compressed(bytes, i + 1 < depth && i % 2 != 0 ? "lz4" : "xz");
    INFO(depth);
    std::string line = scene.failure("docker-archive:" + scene.write("a.tar", bytes));
    CHECK_THAT(line, Contains("unpacking the archive") &&
                         (Contains(cat("compressed ", depth, " times over")) || Contains("too many filters")));
    // What gzip holds is not looked into.
    bytes = fixtures::gzip(fixtures::compressed(tar_of(saved()), "xz"));
    CHECK_THAT(scene.failure("docker-archive:" + scene.write("a.tar", bytes)), Contains("no tar file"));
}

TEST_CASE("hostile row 15: an archive with names that would fill the memory", "[source][hostile]") {
    SourceScene scene;
    fixtures::TarBuilder tar;
    for (unsigned i = 0; i < 70; ++i)
        tar.gnu_long('L', cat(i, std::string(1 << 20, 'x')).substr(0, 1'048'575)).file("x", "");
    std::string packed = fixtures::gzip(tar.finished());
    CHECK_THAT(scene.failure("docker-archive:" + scene.write("a.tar", packed)), Contains("names of more than 67.1 MB"));
}

TEST_CASE("hostile row 17: compressed archives that are cut off or have bytes behind their end", "[source][hostile]") {
    SourceScene scene;
    std::string how = GENERATE("xz", "bzip2", "lz4", "lzip", "gzip", "zstd");
    std::string bytes = fixtures::compressed(tar_of(saved()), how);
    INFO(how);
    for (const std::string& bad :
         {bytes.substr(0, bytes.size() - 3), bytes.substr(0, bytes.size() / 2), bytes + "garbage"})
        CHECK_THAT(scene.failure("docker-archive:" + scene.write("a.tar", bad)), Contains("unpacking the archive"));
}

TEST_CASE("hostile row 13: an archive that claims what it has not", "[source][hostile]") {
    SourceScene scene;
    using Builder = fixtures::TarBuilder;
    std::string huge = Builder::number(1ULL << 62, 12), word, tar, what;
    what = GENERATE("file", "directory", "hard link", "sparse", "negative", "pax", "recursion", "extension");
    Builder builder;
    if (what == "file") builder.item({.name = "a", .size_field = huge}), word = "cut off inside a";
    // Of what is not looked up the size counts all the same, and to go so far must not take long.
    if (what == "directory") builder.item({.name = "a", .type = 'D', .size_field = huge}), word = "damaged";
    if (what == "hard link")
        builder.pax({{"a", "b"}}).item({.name = "a", .type = '1', .link = "b", .size_field = huge}), word = "damaged";
    if (what == "sparse") {
        std::string block(512, '\0');
        Builder::put(block, 0, 1, "a");
        Builder::put(block, 124, 12, Builder::number(512, 12));
        block[156] = 'S';
        Builder::put(block, 257, 8, std::string("ustar  \0", 8));
        // Its piece lies behind its end.
        Builder::put(block, 386, 12, Builder::number(1 << 20, 12));
        Builder::put(block, 398, 12, Builder::number(512, 12));
        Builder::put(block, 483, 12, Builder::number(512, 12));
        builder.raw_header(block).data(std::string(512, 'x'));
        word = "sparse";
    }
    if (what == "negative")
        builder.file("b", "").item({.name = "a", .size_field = std::string(12, '\xff')}), word = "damaged";
    if (what == "pax")
        builder.file("b", "").pax({{"size", "4611686018427387904"}}).file("a", "x"), word = "cut off inside a";
    if (what == "recursion") {
        for (unsigned i = 0; i < 100'000; ++i) builder.gnu_long('L', "x");
        builder.file("a", "");
        word = "no tar file";
    }
    if (what == "extension")
        builder.file("b", "").gnu_long('L', std::string(2 << 20, 'x')).file("a", ""), word = "damaged";
    // From 3.8 on libarchive refuses some sizes before it looks for the bytes.
    if (archive_version_number() >= 3'008'000 && what != "sparse") word = "refused";
    INFO(what);
    auto start = std::chrono::steady_clock::now();
    CHECK_THAT(scene.failure("docker-archive:" + scene.write("a.tar", builder.finished())), Contains(word));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}
