// The remainder of a tar stream, and the proof that a layer file with one is the layer.
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/layer/layer.hh"
#include "runtime/oci/remainder/proof.hh"
#include "runtime/oci/remainder/split.hh"
#include "runtime/oci/sha256.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pack.hh"
#include "tests/fixtures/random_bytes.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_builder.hh"

using namespace berth;
using namespace berth::oci;
using Catch::Contains;
using fixtures::TarBuilder;
using fixtures::TempFolder;

namespace {

std::string pattern(size_t size, unsigned seed) {
    std::string out(size, '\0');
    for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>((i * 7 + i / 251 + seed) % 61);
    return out;
}

/// A layer file as a pull writes it.
struct Stored {
    TempFolder folder;
    Fd file = folder.create("layer");
    squash::BlockSums sums;

    explicit Stored(const std::string& tar) {
        LayerConverter converter(file.get(), "layer x");
        converter.write(tar);
        sums = converter.finish().sums;
    }
    squash::LayerFiles files() const { return {file.get(), "layer x", sums}; }
};

std::string remainder_of(const std::string& tar, squash::LayerFiles& files, size_t step = 10'000) {
    std::string out;
    TarSplitter splitter(files, [&](std::string_view packed) { out += packed; });
    for (size_t at = 0; at < tar.size(); at += step) splitter.feed(std::string_view(tar).substr(at, step));
    splitter.finish();
    return out;
}

Digest proved(squash::LayerFiles& files, const std::string& remainder, const LayerLimits& limits = {}) {
    LayerProof proof(files, limits);
    proof.feed(remainder);
    return proof.finish();
}

template <typename Work>
std::string failure(const Work& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

/// What the proof says of the layer made of `other` with the remainder that makes `tar` of it.
std::string difference(const std::string& tar, const std::string& other) {
    Stored stored(other);
    squash::LayerFiles files = stored.files();
    std::string remainder = remainder_of(tar, files);
    return failure([&] {
        if (proved(files, remainder) != sha256_of(tar)) throw Error("another diff_id");
    });
}

TarBuilder base() {
    TarBuilder tar;
    tar.directory("usr/").directory("usr/bin/").file("usr/bin/tool", pattern(300'000, 1), 0755);
    tar.file("usr/text", "some text\n").symlink("lib", "usr/lib").hardlink("usr/again", "usr/text");
    return tar;
}

/// Streams that tools make, and odd ones.
std::map<std::string, std::string> streams() {
    std::map<std::string, std::string> out;
    out["nothing at all"] = "";
    out["no end"] = base().bytes();
    out["usual"] = base().finished();
    out["blocked to 10 KiB"] = base().finished() + std::string(10'240, '\0');
    out["more behind the end"] = base().finished() + pattern(5'000, 9);
    out["implied directories"] = TarBuilder().file("a/b/c/file", pattern(200'000, 2)).finished();
    out["names that are cleaned up"] = TarBuilder()
                                           .directory("./")
                                           .file("./a", "1")
                                           .file("/b", "2")
                                           .file("c/../d", "3")
                                           .file("e//./f", "4")
                                           .finished();
    out["one name twice"] =
        TarBuilder().file("a", pattern(100'000, 3)).file("a", pattern(150'000, 4)).directory("a/").finished();
    out["the same file twice"] = TarBuilder().file("a", "same").file("a", "same").finished();
    out["through a link"] = TarBuilder()
                                .directory("usr/")
                                .directory("usr/lib/")
                                .symlink("lib", "usr/lib")
                                .file("lib/x", "in usr")
                                .finished();
    out["a link over a file"] = TarBuilder().file("a", pattern(5'000, 6)).symlink("a", "b").file("b", "b").finished();
    out["whiteouts"] =
        TarBuilder().file("etc/.wh.gone", "").file("opt/.wh..wh..opq", "").file(".wh..wh.aufs", "x").finished();
    out["devices"] = TarBuilder().item({.name = "null", .type = '3'}).item({.name = "pipe", .type = '6'}).finished();
    out["attributes"] = TarBuilder()
                            .pax({{"SCHILY.xattr.user.a", "1"}, {"SCHILY.xattr.security.capability", "cap"}})
                            .item({.name = "su", .content = "#!", .mode = 04755, .uid = 70000, .gid = 5, .mtime = -7})
                            .finished();
    out["long names"] = TarBuilder()
                            .gnu_long('L', std::string(180, 'n'))
                            .file("n", "gnu")
                            .pax({{"path", std::string(200, 'p')}, {"comment", "c"}})
                            .file("p", "pax")
                            .finished();
    out["holes"] = TarBuilder()
                       .pax({{"GNU.sparse.map", "0,512,1048576,1024"}, {"GNU.sparse.size", "2097152"}})
                       .file("sparse", pattern(1536, 8))
                       .finished();
    out["zeros"] = TarBuilder().file("zeros", std::string(3 << 20, '\0')).finished();
    out["sizes of directories"] =
        TarBuilder().item({.name = "d/", .type = '5', .size_field = std::string("00000010000\0", 12)}).finished();
    out["many small files"] = [] {
        TarBuilder tar;
        for (unsigned i = 0; i < 3000; ++i) tar.file(cat("d", i % 17, "/f", i), pattern(i % 900, i));
        return tar.finished();
    }();
    return out;
}

}  // namespace

TEST_CASE("remainder: with the layer file it is the tar stream, whatever that is like", "[layer][remainder]") {
    for (const auto& [name, tar] : streams()) {
        INFO(name);
        Stored stored(tar);
        squash::LayerFiles files = stored.files();
        for (size_t step : {size_t{333}, size_t{1} << 20}) {
            std::string remainder = remainder_of(tar, files, step);
            CHECK(proved(files, remainder) == sha256_of(tar));
        }
    }
}

TEST_CASE("remainder: bytes of files are not in it", "[layer][remainder]") {
    TarBuilder tar;
    for (unsigned i = 0; i < 20; ++i) tar.file(cat("f", i), fixtures::random_bytes(100'000, i));
    Stored stored(tar.finished());
    squash::LayerFiles files = stored.files();
    CHECK(remainder_of(tar.finished(), files).size() < 2'000);
    std::string sparse = TarBuilder()
                             .pax({{"GNU.sparse.map", "512,50000,200000,50000"}, {"GNU.sparse.size", "300000"}})
                             .file("sparse", fixtures::random_bytes(100'000, 1))
                             .finished();
    Stored holes(sparse);
    squash::LayerFiles with_holes = holes.files();
    CHECK(remainder_of(sparse, with_holes).size() < 2'000);
    std::string twice = TarBuilder().file("a", fixtures::random_bytes(50'000, 1)).file("a", "b").finished();
    Stored replaced(twice);
    squash::LayerFiles other = replaced.files();
    CHECK(remainder_of(twice, other).size() > 50'000);
}

TEST_CASE("remainder: a layer file that shows something else is refused, though the stream is right",
          "[layer][remainder]") {
    std::string tar = base().finished();
    CHECK(difference(tar, tar).empty());
    CHECK_THAT(difference(tar, base().file("extra", "").finished()), Contains("/extra is in no entry"));
    CHECK_THAT(difference(tar, base().file("usr/bin/extra", "").finished()), Contains("/usr/bin/extra is in no entry"));
    CHECK_THAT(difference(base().file("zz", "").finished(), tar), Contains("/zz is missing"));
    CHECK_THAT(difference(tar, base().file("usr/text", "other bytes").finished()), Contains("/usr/"));
    CHECK_THAT(difference(tar, base().file("usr/bin/tool", pattern(300'000, 2), 0755).finished()),
               Contains("/usr/bin/tool has other bytes"));
    CHECK_THAT(difference(tar, base().file("usr/bin/tool", pattern(299'999, 1), 0755).finished()),
               Contains("/usr/bin/tool has other bytes"));
    CHECK_THAT(difference(tar, base().file("usr/bin/tool", pattern(300'000, 1), 04755).finished()),
               Contains("/usr/bin/tool is of another kind or mode"));
    CHECK_THAT(difference(tar, base().item({.name = "usr/bin/", .type = '5', .mode = 0755, .uid = 7}).finished()),
               Contains("/usr/bin has another owner"));
    CHECK_THAT(difference(tar, base().item({.name = "usr/", .type = '5', .mode = 0755, .mtime = 7}).finished()),
               Contains("/usr has another time"));
    CHECK_THAT(difference(tar, base().symlink("lib", "usr/lib64").finished()), Contains("/lib leads elsewhere"));
    CHECK_THAT(difference(tar, base().file("usr/again", "some text\n").finished()),
               Contains("/usr/text is another hard link"));
    CHECK_THAT(difference(TarBuilder().file("a", "x").file("b", "x").finished(),
                          TarBuilder().file("a", "x").hardlink("b", "a").finished()),
               Contains("another hard link"));
    // What only the hard link has kept is looked at too.
    auto kept = [](const std::string& bytes) {
        return TarBuilder().file("a", bytes).hardlink("b", "a").file("a", pattern(200'000, 2)).finished();
    };
    CHECK(difference(kept(pattern(200'000, 1)), kept(pattern(200'000, 1))).empty());
    for (const std::string& bytes : {pattern(200'000, 3), pattern(199'999, 1), pattern(200'000, 2), std::string()}) {
        CHECK_THAT(difference(kept(pattern(200'000, 1)), kept(bytes)), Contains("/b has other bytes"));
        CHECK_THAT(difference(kept(bytes), kept(pattern(200'000, 1))), Contains("/b has other bytes"));
    }
    CHECK_THAT(difference(TarBuilder().file("a", "x").finished(),
                          TarBuilder().pax({{"SCHILY.xattr.user.a", "1"}}).file("a", "x").finished()),
               Contains("/a has other extended attributes"));
    CHECK_THAT(difference(TarBuilder().directory("d/").file("d/f", "x").finished(),
                          TarBuilder().file("d/f", "x").finished()),
               Contains("/"));
}

TEST_CASE("remainder: what is changed in it is an error or another diff_id, but for bits that say nothing",
          "[layer][remainder]") {
    std::string tar = TarBuilder().directory("d/").file("d/f", pattern(3'000, 1)).symlink("l", "d/f").finished();
    Stored stored(tar);
    squash::LayerFiles files = stored.files();
    std::string whole = remainder_of(tar, files);
    size_t taken = 0;
    for (size_t at = 0; at < whole.size(); ++at)
        for (unsigned bit : {0U, 3U, 7U}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ (1U << bit));
            taken += failure([&] {
                if (proved(files, damaged) != sha256_of(tar)) throw Error("another diff_id");
            }).empty();
        }
    // zstd has bits that change nothing, as where a match is found twice.
    CHECK(taken < 3 * whole.size() / 5);
    for (size_t size = 0; size < whole.size(); ++size)
        CHECK_FALSE(failure([&] { proved(files, whole.substr(0, size)); }).empty());
    CHECK_FALSE(failure([&] { proved(files, whole + "x"); }).empty());
}

TEST_CASE("artifact: a list of referrers has ours once, and what others have put there", "[layer][remainder]") {
    Descriptor one{"application/vnd.oci.image.manifest.v1+json", sha256_of("1"), 1},
        two{one.media_type, sha256_of("2"), 2};
    std::string list = with_referrer("", one, "list");
    CHECK_THAT(list, Contains(one.digest.text()) && Contains(artifact_type));
    std::string other =
        R"({"schemaVersion":2,"manifests":[{"mediaType":"m","digest":"d","size":1,"artifactType":"x"}]})";
    list = with_referrer(with_referrer(other, one, "list"), two, "list");
    CHECK_THAT(list, Contains(R"("artifactType":"x")") && Contains(two.digest.text()) && !Contains(one.digest.text()));
    CHECK_THROWS_WITH(with_referrer("[]", one, "list"), Contains("list: it is no list of manifests"));
}

TEST_CASE("remainder: what no honest one says is refused", "[layer][remainder]") {
    Stored stored(TarBuilder().file("f", "0123456789").finished());
    squash::LayerFiles files = stored.files();
    auto refusal = [&](const std::string& records) {
        return failure([&] { proved(files, fixtures::zstd(records)); });
    };
    using std::string_literals::operator""s;
    CHECK_THAT(refusal("\x15\x00\x01g\x00"s), Contains("names bytes of g that its layer does not have"));
    CHECK_THAT(refusal("\x15\x01\x01""f\x00"s), Contains("names bytes of f that its layer does not have"));
    CHECK_THAT(refusal("\x17\x00\x01""f\x00"s), Contains("names bytes of f that its layer does not have"));
    CHECK_THAT(refusal("\x01\x00\x01""f\x00"s), Contains("names no bytes of a file"));
    CHECK_THAT(refusal("\x15\x00\x00"s), Contains("a path that none can be"));
    CHECK_THAT(refusal("\x15\x00\xff\x7f"s), Contains("a path that none can be"));
    CHECK_THAT(refusal("\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01"
                       "f\x00"s),
               Contains("a place in a file that none"));
    CHECK_THAT(refusal(std::string(11, '\xff')), Contains("a number that is too large"));
    CHECK_THAT(refusal("\x00x"s), Contains("goes on after its end"));
    CHECK_THAT(refusal("\x08xx"s), Contains("is cut off"));
    CHECK_THAT(refusal(""), Contains("is cut off"));
    CHECK_THAT(failure([&] { proved(files, fixtures::zstd("\x15\x00\x01""f\x00"s), {.unpacked_bytes = 5}); }),
               Contains("stands for more than 5 B"));
}
