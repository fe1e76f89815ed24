// Images that are used where they lie: squashfs files, SIF files, directories; and the hints for what is written
// wrongly.
#include "runtime/images/file.hh"

#include <cstring>

#include "runtime/images/spelling.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/fixtures/sif_file.hh"
#include "tests/unit/oci_source_support.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::test;
using berth::fixtures::sif;
using Catch::Contains;

namespace {

/// A squashfs with /etc/environment, /etc/rc as Enroot writes them, and a file of more than a block and less than one.
std::string squashfs(const fixtures::TempFolder& folder) {
    Fd file = folder.create("plain.sqsh");
    squash::LayerWriter writer(file.get(), {});
    auto add = [&](const std::string& path, const std::string& content) {
        writer.begin_file(path, {});
        writer.append(content);
        writer.end_file();
    };
    add("etc/environment", "PATH=/opt/bin\nexport BAD=1\nQ=\"a b\"\n$(touch x)\nE=a=b\n");
    add("etc/rc", "mkdir -p \"/work dir\" 2> /dev/null\ncd \"/work dir\" && unset OLDPWD || exit 1\nexec \"$@\"\n");
    add("big", std::string(300'000, 'b') + "end");
    add("small", "s");
    writer.finish();
    file.reset();
    return sys::read_file(folder / "plain.sqsh");
}

std::string content(ContainerImage& image, const std::string& name) {
    auto file = image.index.file(image.index.lookup(1, name));
    if (!file) return "(absent)";
    squash::DataReader reader(std::move(image.layers), image.index.layers(), 1 << 20);
    std::string out(file->size, '\0');
    return reader.read(*file, 0, out) == static_cast<long>(out.size()) ? out : "(unreadable)";
}

std::string failure(const std::string& path) {
    try {
        open_image_file(path);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("a squashfs file without a config of ours takes Enroot's files as data", "[source]") {
    SourceScene scene;
    squashfs(scene.folder);
    ContainerImage image = open_image_file(scene.folder / "plain.sqsh");
    CHECK(image.index.config().env == std::vector<std::string>{"PATH=/opt/bin", "Q=a b", "E=a=b"});
    CHECK(image.index.config().working_dir == "/work dir");
    CHECK(image.index.config().entrypoint == std::vector<std::string>{"/bin/sh", "/etc/rc"});
    CHECK(image.index.config().cmd.empty());
    CHECK(config_of_enroot("", "").entrypoint.empty());
    CHECK(config_of_enroot("", "#!/bin/bash\n# what init runs\nfor i in /etc/rc3.d/S*; do $i start; done\n")
              .entrypoint.empty());
    CHECK(content(image, "small") == "s");
    for (const char* rc : {"cd \"$(reboot)\" && unset OLDPWD || exit 1", "cd \"a\" && unset OLDPWD || exit 1", "cd /x",
                           "cd \"/a\"; x && unset OLDPWD || exit 1"})
        CHECK(config_of_enroot("", rc).working_dir.empty());
}

TEST_CASE("a SIF file is its primary system partition, wherever that lies", "[source]") {
    SourceScene scene;
    std::string image = squashfs(scene.folder);
    auto size = static_cast<int64_t>(image.size());
    std::vector<fixtures::SifPart> parts{{.type = 0x4001, .offset = 32768, .size = 100},
                                         {.offset = 40000, .size = size, .role = 1},
                                         {.offset = 1, .size = 9, .used = false},
                                         {.offset = 32768 + 4321, .size = size}};
    ContainerImage opened =
        open_image_file(scene.write("x.sif", sif(parts, std::string(4321, 'z') + image + "behind")));
    CHECK(opened.index.config().working_dir == "/work dir");
    std::string which = GENERATE("big", "small");
    CHECK(content(opened, which) == (which == "big" ? std::string(300'000, 'b') + "end" : "s"));
}

TEST_CASE("hostile: SIF files that say what is not so", "[source][hostile]") {
    SourceScene scene;
    std::string image = squashfs(scene.folder);
    auto size = static_cast<int64_t>(image.size());
    auto fails = [&](const std::string& bytes) { return failure(scene.write("x.sif", bytes)); };
    CHECK_THAT(fails(sif({{.offset = 32768, .size = size, .file_system = 5}}, image)), Contains("encrypted squashfs"));
    CHECK_THAT(fails(sif({{.offset = 32768, .size = size, .file_system = 2}}, image)), Contains("ext3"));
    CHECK_THAT(fails(sif({{.offset = 32768, .size = size, .role = 3}}, image)), Contains("no system partition"));
    CHECK_THAT(fails(sif({{.offset = 32768, .size = size + 1}}, image)), Contains("not within the file"));
    CHECK_THAT(fails(sif({{.offset = -1, .size = size}}, image)), Contains("not within the file"));
    CHECK_THAT(fails(sif({{.offset = 0, .size = size}}, image)), Contains("not within the file"));
    CHECK_THAT(fails(sif({{.offset = INT64_MAX, .size = INT64_MAX}}, image)), Contains("not within the file"));
    CHECK_THAT(fails(sif({{.offset = 32768, .size = 50}}, image)), Contains("too short"));
    CHECK_THAT(fails(sif({{.offset = 32768, .size = 200}}, image)), Contains("should have"));
    CHECK_THAT(fails(sif({{.offset = 32000, .size = size}}, image)), Contains("not a squashfs"));
    CHECK_THAT(fails(sif({}, image, INT64_MAX)), Contains("descriptors"));
    CHECK_THAT(fails(sif({}, image, 4096)), Contains("cut off"));
    CHECK_THAT(fails(sif({}, image).substr(0, 100)), Contains("cut off"));
    // Overlapping partitions are one another's business: only the primary one is read.
    CHECK(fails(sif({{.offset = 32768, .size = size}, {.offset = 32768, .size = size, .role = 1}}, image)).empty());
}

TEST_CASE("a directory is an image as it lies", "[source]") {
    SourceScene scene;
    scene.write("root", FileMap{{"etc/environment", "A=b\n"}});
    ContainerImage image = open_image_file(scene.folder / "root");
    CHECK(image.directory == scene.folder / "root");
    CHECK(image.layers.empty());
    CHECK(image.index.config().env == std::vector<std::string>{"A=b"});
    CHECK_THAT(failure("/"), Contains("root of this node"));
    fs::create_symlink("/etc/hostname", scene.folder / "root/etc/rc");
    CHECK(failure(scene.folder / "root").empty());
}

TEST_CASE("what is written without its prefix is told how to be written", "[source]") {
    SourceScene scene;
    scene.write("lay", FileMap{{"oci-layout", ""}});
    scene.write("o.tar", tar_of({{"blobs/x", std::string(1000, 'x')}, {"oci-layout", ""}}));
    scene.write("d.tar", tar_of({{"abc/layer.tar", "x"}, {"manifest.json", ""}, {"oci-layout", ""}}));
    scene.write("x.tar", tar_of({{"bin/sh", ""}}));
    scene.write("p.tar.gz", fixtures::gzip("x"));
    scene.write("x.sqsh", "hsqs");
    const std::string& folder = scene.folder.path();
    CHECK_THAT(failure(folder + "/lay"), Contains("write oci:" + folder + "/lay"));
    CHECK_THAT(failure(folder + "/o.tar"), Contains("write oci-archive:" + folder + "/o.tar"));
    CHECK_THAT(failure(folder + "/d.tar"), Contains("write docker-archive:" + folder + "/d.tar"));
    CHECK_THAT(failure(folder + "/x.tar"), Contains("unpack it"));
    CHECK_THAT(failure(folder + "/p.tar.gz"), Contains("docker-archive:") && Contains("oci-archive:"));
    CHECK_THROWS_WITH(check_is_no_file("x.sqsh", folder), Contains("write ./x.sqsh"));
    CHECK_THROWS_WITH(check_is_no_file("d.tar", folder), Contains("write docker-archive:./d.tar"));
    CHECK_NOTHROW(check_is_no_file("absent.sqsh", folder));
    CHECK_NOTHROW(check_is_no_file("lay", folder));
}
