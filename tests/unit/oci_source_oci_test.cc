// OCI layouts, as directories and as archives.
#include <unistd.h>

#include <thread>

#include "runtime/oci/manifest.hh"
#include "runtime/store/file_record.hh"
#include "tests/unit/oci_source_support.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::test;
using Catch::Contains;

TEST_CASE("an image comes from a layout, whether a directory or an archive", "[source]") {
    SourceScene scene;
    Layout layout;
    std::string digest = layout.image();
    layout.entries = {layout.entry(digest, "v1")};
    layout.close();
    std::string form = GENERATE("layout", "tar", "gzip", "zstd"), reference;
    if (form == "layout") reference = "oci:" + scene.write("layout", layout.files);
    if (form == "tar") reference = "oci-archive:" + scene.write("a.tar", tar_of(layout.files));
    if (form == "gzip") reference = "oci-archive:" + scene.write("a.tar.gz", fixtures::gzip(tar_of(layout.files)));
    if (form == "zstd") reference = "oci-archive:" + scene.write("a.tar.zst", fixtures::zstd(tar_of(layout.files)));
    std::string chosen = GENERATE("", ":v1", "digest", "@digest");
    reference += chosen == "digest" ? ":" + digest : chosen == "@digest" ? ":@" + digest : chosen;
    CHECK(scene.pull(reference) == digest);
    CHECK(scene.os_of(digest) == "PRETTY=base\n");
    CHECK(scene.count("tmp") == 0);
    CHECK(squash::Index::open(scene.store().open_index(Digest(digest)).get(), "index").config().cmd ==
          std::vector<std::string>{"tool"});
}

TEST_CASE("an archive that has not changed is not read again", "[source]") {
    SourceScene scene;
    Layout layout;
    std::string digest = layout.image();
    layout.entries = {layout.entry(digest, "a/b:v1")};
    layout.close();
    std::string path = scene.write("a.tar", tar_of(layout.files)), text = cat("oci-archive:", path, ":a/b:v1");
    auto record = [&] { return scene.store().digest_of(store::file_record(plan::parse_reference(text)).reference); };
    CHECK(scene.pull(text) == digest);
    CHECK_FALSE(record());  // Too fresh: a change could follow within the clock's step.
    std::this_thread::sleep_for(std::chrono::milliseconds(3100));
    CHECK(scene.pull(text) == digest);
    CHECK(record() == digest);
    pull::Options never;
    never.policy = pull::Policy::never;
    CHECK(scene.pull(text, never) == digest);
    // Another content of the same size, at the same time as far as mtime goes.
    fs::file_time_type time = fs::last_write_time(path);
    std::string bytes = tar_of(layout.files);
    bytes[0] = 'X';
    scene.write("a.tar", bytes);
    fs::last_write_time(path, time);
    CHECK_FALSE(record());
}

TEST_CASE("an image among several in a layout is chosen by name or digest", "[source]") {
    SourceScene scene;
    Layout layout;
    std::string one = layout.image(), two = layout.image(" ");
    std::string platform =
        cat(R"(,"platform":{"os":"linux","architecture":")", oci::this_machine().architecture, "\"}");
    std::string inner = layout.list(
        {descriptor("manifest.v1+json", two, layout.files["blobs/sha256/" + two.substr(7)].size(), platform)});
    std::string index = layout.blob(inner);
    layout.entries = {layout.entry(one, "one"), layout.entry(index, "all", "index.v1+json")};
    layout.close();
    std::string dir = "oci:" + scene.write("layout", layout.files);
    CHECK_THAT(scene.failure(dir), Contains("2 images") && Contains("one, all"));
    CHECK_THAT(scene.failure(dir + ":three"), Contains("no image of that name") && Contains("one, all"));
    CHECK(scene.pull(dir + ":one") == one);
    CHECK(scene.pull(dir + ":all") == index);
    CHECK(scene.store().image_of(Digest(index)) == two);
    CHECK(scene.pull(dir + ":" + two) == two);
}

TEST_CASE("what is no layout is told with the right spelling", "[source]") {
    SourceScene scene;
    CHECK_THAT(scene.failure("oci:" + scene.folder / "absent"), Contains("absent") && Contains("No such file"));
    CHECK_THAT(scene.failure("oci-archive:" + scene.write("d.tar", tar_of({{"manifest.json", "[]"}}))),
               Contains("docker-archive:"));
    CHECK_THAT(scene.failure("oci-archive:" + scene.write("x.tar", std::string(4096, 'x'))),
               Contains("is no tar file"));
    CHECK_THAT(scene.failure("oci-archive:" + scene.write("e.tar", std::string())), Contains("is no tar file"));
    scene.write("dir", FileMap{{"version", "Directory Transport Version: 1.1\n"}, {"manifest.json", "{}"}});
    CHECK_THAT(scene.failure("oci:" + scene.folder / "dir"), Contains("skopeo copy dir:FOLDER oci:OTHER"));
    scene.write("saved", FileMap{{"version", "1"}, {"manifest.json", "[]"}});
    CHECK_THAT(scene.failure("oci:" + scene.folder / "saved"), Contains("docker save"));
    Layout old;
    old.files["oci-layout"] = R"({"imageLayoutVersion":"2.0"})";
    old.close();
    CHECK_THAT(scene.failure("oci:" + scene.write("old", old.files)), Contains("version \"2.0\""));
}

TEST_CASE("hostile row 23: blobs of a layout that are not what their names say", "[source][hostile]") {
    SourceScene scene;
    Layout layout;
    std::string digest = layout.image();
    layout.entries = {layout.entry(digest, "")};
    layout.close();
    std::string what = GENERATE("manifest", "config", "layer", "size", "missing");
    for (auto& [name, bytes] : layout.files) {
        bool is_manifest = bytes.find("\"layers\":") != bytes.npos, is_config = bytes.find("rootfs") != bytes.npos;
        bool is_layer = name.starts_with("blobs/") && !is_manifest && !is_config;
        if ((what == "manifest" && is_manifest) || (what == "config" && is_config) || (what == "layer" && is_layer))
            bytes[bytes.size() / 2] ^= 1;
        if (what == "size" && is_layer) bytes += "x";
    }
    if (what == "missing")
        std::erase_if(layout.files, [](const auto& file) { return file.second.find("rootfs") != file.second.npos; });
    bool archive = GENERATE(false, true);
    std::string reference = archive ? "oci-archive:" + scene.write("a.tar", tar_of(layout.files))
                                    : "oci:" + scene.write("layout", layout.files);
    INFO(what);
    std::string line = scene.failure(reference);
    CHECK_THAT(line, Contains("sha256:"));
    CHECK(scene.count("layers") == 0);
}

TEST_CASE("hostile row 27: a layout whose index nests itself deeper than allowed", "[source][hostile]") {
    SourceScene scene;
    Layout layout;
    std::string digest = layout.image();
    std::string entry = layout.entry(digest, "");
    for (int i = 0; i < 6; ++i) entry = layout.entry(layout.blob(Layout::list({entry})), "", "index.v1+json");
    layout.entries = {entry};
    layout.close();
    CHECK_THAT(scene.failure("oci:" + scene.write("layout", layout.files)),
               Contains("image indexes inside one another"));
}

TEST_CASE("hostile row 28: a layout with digests that are paths", "[source][hostile]") {
    SourceScene scene;
    Layout layout;
    layout.files["index.json"] = Layout::list({descriptor("manifest.v1+json", "sha256:../../../etc/passwd", 5)});
    CHECK_THAT(scene.failure("oci:" + scene.write("layout", layout.files)), Contains("not sha256:"));
}

TEST_CASE("hostile: symlinks in a layout are not followed", "[source][hostile]") {
    SourceScene scene;
    Layout layout;
    std::string digest = layout.image();
    layout.entries = {layout.entry(digest, "")};
    layout.close();
    std::string dir = scene.write("layout", layout.files);
    std::string link = GENERATE("blobs", "blobs/sha256", "index.json", "oci-layout");
    fs::rename(dir + "/" + link, scene.folder / "elsewhere");
    fs::create_symlink(scene.folder / "elsewhere", dir + "/" + link);
    CHECK_THAT(scene.failure("oci:" + dir), Contains("symlink") && Contains("cp -rL"));
}
