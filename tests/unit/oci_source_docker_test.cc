// Archives of docker save.
#include "runtime/oci/source/files.hh"
#include "tests/unit/oci_source_support.hh"

using namespace berth;
using namespace berth::test;
using Catch::Contains;

namespace {

std::string list_entry(const std::string& config, const std::string& tags, const std::string& layers) {
    return cat(R"({"Config":")", config, R"(","RepoTags":)", tags, R"(,"Layers":[)", layers, "]}");
}

/// As docker before version 25 wrote it.
FileMap saved(const std::string& layer = layer_tar(), const std::string& tags = R"(["debian:12"])") {
    std::string config = config_of(layer_tar()), name = oci::sha256_of(config).hex() + ".json";
    return {{name, config},
            {"abc/layer.tar", layer},
            {"manifest.json", cat("[", list_entry(name, tags, R"("abc/layer.tar")"), "]")}};
}

}  // namespace

TEST_CASE("an image comes from an archive of docker save, packed in whatever way", "[source]") {
    SourceScene scene;
    std::string plain = "docker-archive:" + scene.write("a.tar", tar_of(saved()));
    std::string digest = scene.pull(plain);
    CHECK(scene.os_of(digest) == "PRETTY=base\n");
    CHECK(scene.count("tmp") == 0);
    CHECK(scene.store().read_document(Digest(digest), "config.json") == config_of(layer_tar()));
    CHECK(oci::sha256_of(scene.store().read_document(Digest(digest), "manifest.json")) == digest);
    // The same image: the same digest.
    CHECK(scene.pull("docker-archive:" + scene.write("a.tgz", fixtures::gzip(tar_of(saved()))) + ":debian:12") ==
          digest);
    CHECK(scene.pull("docker-archive:" + scene.write("a.zst", fixtures::zstd(tar_of(saved()))) +
                     ":docker.io/library/debian:12") == digest);
    CHECK(scene.count("images") == 1);
    CHECK(scene.count("layers") == 1);
    CHECK(scene.os_of(scene.pull("docker-archive:" +
                                 scene.write("b.tar", tar_of(saved(fixtures::gzip(layer_tar())))))) == "PRETTY=base\n");
}

TEST_CASE("links of an archive are followed inside it", "[source]") {
    SourceScene scene;
    FileMap files = saved();
    std::string layer = files["abc/layer.tar"];
    files.erase("abc/layer.tar");
    fixtures::TarBuilder tar;
    for (const auto& [name, content] : files) tar.file("./" + name, content);
    std::string target = GENERATE("../real.tar", "../link.tar", "../../outside", "/etc/passwd", "layer.tar");
    tar.file("real.tar", layer).hardlink("link.tar", "real.tar").symlink("abc/layer.tar", target);
    std::string reference = "docker-archive:" + scene.write("a.tar", tar.finished());
    if (target.ends_with(".tar") && target != "layer.tar") {
        CHECK(scene.os_of(scene.pull(reference)) == "PRETTY=base\n");
    } else {
        CHECK_THAT(scene.failure(reference), Contains("abc/layer.tar") && Contains("refused"));
    }
}

TEST_CASE("one of several images of an archive is chosen by its name", "[source]") {
    SourceScene scene;
    FileMap files = saved();
    std::string config = config_of(layer_tar()) + " ";
    files["other.json"] = config;
    files["manifest.json"] = cat("[",
                                 list_entry(oci::sha256_of(config_of(layer_tar())).hex() + ".json",
                                            R"(["debian:12","r.io/x:1"])", R"("abc/layer.tar")"),
                                 ",", list_entry("other.json", "null", R"("abc/layer.tar")"), "]");
    std::string reference = "docker-archive:" + scene.write("a.tar", tar_of(files));
    CHECK_THAT(scene.failure(reference),
               Contains("2 images") && Contains("debian:12, r.io/x:1, an image without a name"));
    CHECK_THAT(scene.failure(reference + ":debian"), Contains("no image of that name"));
    CHECK(scene.pull(reference + ":debian:12") == scene.pull(reference + ":r.io/x:1"));
}

TEST_CASE("the reading of an archive is told by bytes of its file", "[source][progress]") {
    SourceScene scene;
    bool packed = GENERATE(false, true);
    std::string bytes = packed ? fixtures::gzip(tar_of(saved())) : tar_of(saved()), file = scene.write("a.tar", bytes);
    pull::Meter meter("a.tar");
    pull::pull(scene.store(), plan::parse_reference("docker-archive:" + file), {}, meter);
    std::vector<std::string> phases;
    for (const pull::Event& event : meter.take_events()) {
        if (event.kind != pull::Event::Kind::phase) continue;
        phases.emplace_back(name_of(event.phase));
        if (event.phase == pull::Phase::reading) CHECK(event.total == bytes.size());
    }
    CHECK(phases == std::vector<std::string>{"opening", "opening", "reading", "opening", "pulling", "merging"});

    uint64_t read = 0;
    auto scratch = [&] { return scene.folder.create("scratch"); };
    oci::open_archive(oci::open_archive_file(file, "a"), "a", scratch, [&](uint64_t more) { read += more; });
    // Of a plain one the two blocks of zeros at its end are not gone through.
    CHECK(read == (packed ? bytes.size() : bytes.size() - 1024));
}

TEST_CASE("hostile: archives of docker save that say what is not so", "[source][hostile]") {
    SourceScene scene;
    FileMap files = saved();
    std::string name = oci::sha256_of(config_of(layer_tar())).hex() + ".json";
    std::string word, what = GENERATE("path", "config", "layer", "diff_ids", "no list", "no manifest", "huge manifest",
                                      "cut", "header");
    if (what == "path")
        files["manifest.json"] = cat("[", list_entry(name, "[]", R"("../../etc/passwd")"), "]"),
        word = "../../etc/passwd, which is no file of the archive";
    if (what == "config") files[name] += " ", word = "has the digest";
    if (what == "layer") files["abc/layer.tar"][520] ^= 1, word = "sha256:";
    if (what == "diff_ids")
        files["manifest.json"] = cat("[", list_entry(name, "[]", R"("abc/layer.tar","abc/layer.tar")"), "]"),
        word = "1 diff_ids for 2 layers";
    if (what == "no list") files["manifest.json"] = "{}", word = "not a list";
    if (what == "no manifest") files.erase("manifest.json"), word = "no archive of docker save";
    if (what == "huge manifest") files["manifest.json"] = std::string(5 << 20, ' '), word = "more than the limit";
    std::string tar = tar_of(files);
    if (what == "cut") tar.resize(tar.size() - 1500), word = "cut off";
    if (what == "header") tar[100] ^= 1, word = "no tar file";
    INFO(what);
    CHECK_THAT(scene.failure("docker-archive:" + scene.write("a.tar", tar)), Contains(word));
    CHECK(scene.count("layers") == 0);
}

TEST_CASE("hostile row 15: an archive with more entries than any image has", "[source][hostile]") {
    SourceScene scene;
    std::string one = fixtures::TarBuilder().file("x", "").finished().substr(0, 512), all;
    for (size_t i = 0; i <= oci::archive_entry_limit; ++i) all += one;
    CHECK_THAT(scene.failure("docker-archive:" + scene.write("a.tar", all)), Contains("more than 100000 entries"));
}

TEST_CASE("hostile row 17: packed archives that are cut off", "[source][hostile]") {
    SourceScene scene;
    std::string packed = GENERATE(true, false) ? fixtures::gzip(tar_of(saved())) : fixtures::zstd(tar_of(saved()));
    packed.resize(packed.size() - 10);
    CHECK_THAT(scene.failure("docker-archive:" + scene.write("a.tar", packed)), Contains("unpacking the archive"));
}
