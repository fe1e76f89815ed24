// Images that are used where they lie: squashfs files, SIF files, directories; and the hints for what is written
// wrongly.
#include "runtime/images/file.hh"

#include <cstring>

#include "runtime/images/sif_environment.hh"
#include "runtime/images/spelling.hh"
#include "runtime/squash/format/super.hh"
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
    for (const char* line : {"cd '/t' && unset OLDPWD || exit 1", "cd \"/t\" && unset OLDPWD || exit 1",
                             "cd \"/t\" || exit 1", "cd '/t' || exit 1"})
        CHECK(config_of_enroot("", cat(line, "\n")).working_dir == "/t");
    CHECK(config_of_enroot("", "cd '/a$b it'\\''s' && unset OLDPWD || exit 1").working_dir == "/a$b it's");
    for (const char* rc : {"cd '/a' && 'b' || exit 1", "cd '/a'b' || exit 1", "cd ' || exit 1", "cd '' || exit 1",
                           "cd \"/a\" && reboot || exit 1", "cd 'a' || exit 1"}) {
        INFO(rc);
        CHECK(config_of_enroot("", rc).working_dir.empty());
    }
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

namespace {

/// A squashfs with these files, the executable ones with mode 0755.
std::string squashfs_of(const fixtures::TempFolder& folder, const FileMap& files) {
    Fd file = folder.create("made.sqsh");
    squash::LayerWriter writer(file.get(), {});
    for (const auto& [path, content] : files) {
        writer.begin_file(path, {.mode = content.starts_with("#!") ? 0755U : 0644U});
        writer.append(content);
        writer.end_file();
    }
    writer.finish();
    file.reset();
    return sys::read_file(folder / "made.sqsh");
}

const FileMap of_apptainer{
    {".singularity.d/env/01-base.sh", "if true; then export X=1; fi\n"},
    {".singularity.d/env/10-docker2singularity.sh",
     "#!/bin/sh\nexport PATH=\"/opt/tool/bin:/usr/bin\"\nexport LANG=\"${LANG:-\"C.UTF-8\"}\"\n"
     "export QUOTED=\"${QUOTED:-\"a \\\"b\\\" \\$HOME \\\\ \\`x\\`\"}\"\nexport OPEN=\"${OPEN:-}\"\n"},
    {".singularity.d/env/90-environment.sh",
     "# Custom\nexport LANG=de_DE.UTF-8\n  MODE='two words'\nexport MODE\nexport PATH=\"/x:$PATH\"\nunset A\n"},
    {".singularity.d/env/99-base.sh", "export Y=1\n"},
    {".singularity.d/env/note.txt", "export Z=1\n"},
    {".singularity.d/runscript", "#!/bin/sh\nexec tool \"$@\"\n"},
    {"etc/environment", "PATH=/of/debian\n"},
};
const std::vector<std::string> said_to_apptainer{"PATH=/opt/tool/bin:/usr/bin", "LANG=de_DE.UTF-8",
                                                 "QUOTED=a \"b\" $HOME \\ `x`", "MODE=two words"};

}  // namespace

TEST_CASE("the environment of a SIF file is what its maker has written, as data", "[source]") {
    SourceScene scene;
    std::string image = squashfs_of(scene.folder, of_apptainer);
    auto opened = [&](const std::string& path) {
        ContainerImage out = open_image_file(path);
        CHECK(out.index.config().env == said_to_apptainer);
        CHECK(out.index.config().entrypoint == std::vector<std::string>{"/.singularity.d/runscript"});
        CHECK_FALSE(out.index.config().of_enroot);
        CHECK(out.index.config().unread_lines == 2);
    };
    opened(scene.write("x.sif", sif({{.offset = 32768, .size = static_cast<int64_t>(image.size())}}, image)));
    // Its partition alone, and a sandbox.
    opened(scene.write("x.sqsh", image));
    scene.write("sandbox", of_apptainer);
    fs::permissions(scene.folder / "sandbox/.singularity.d/runscript", fs::perms(0755));
    opened(scene.folder / "sandbox");
    // Without any of it the image says what it said before.
    std::string plain = squashfs_of(scene.folder, {{"etc/environment", "A=b\n"}});
    auto size = static_cast<int64_t>(plain.size());
    ContainerImage other = open_image_file(scene.write("y.sif", sif({{.offset = 32768, .size = size}}, plain)));
    CHECK(other.index.config().env == std::vector<std::string>{"A=b"});
    CHECK(other.index.config().unread_lines == 0);
}

TEST_CASE("hostile: a SIF file's environment that does more than name values is left out", "[source][hostile]") {
    SifEnvironment out;
    out.read(
        "export A=\"$(touch x)\"\nexport B=\"`id`\"\nexport C=$HOME\nexport D=\"a\" && reboot\nexport E='a'b'\n"
        "export F=\"${G:-\"x\"}\"\nexport H=\"${H:-\"$(id)\"}\"\nexport I=a;reboot\nexport 1J=x\nif true\n"
        "export K=\"a\"\"b\"\nexport L=a b\n" + std::string("export M=a\0b\n", 13));
    CHECK(out.env.empty());
    CHECK(out.unread == 13);
}

TEST_CASE("a squashfs is found behind what starts it: Singularity 2's line, an AppImage's program", "[source]") {
    SourceScene scene;
    std::string image = squashfs(scene.folder);
    auto os = [&](const std::string& bytes) {
        ContainerImage opened = open_image_file(scene.write("x.img", bytes));
        CHECK(opened.index.config().working_dir == "/work dir");
        CHECK(content(opened, "big") == std::string(300'000, 'b') + "end");
    };
    os("#!/usr/bin/env run-singularity\n" + image);
    for (bool is_64 : {true, false}) {
        std::string elf = std::string("\x7f" "ELF") + (is_64 ? '\2' : '\1') + std::string("\1\1\0AI\2", 6);
        elf.resize(1000, 'e');
        elf.replace(is_64 ? 0x28 : 0x20, is_64 ? 8 : 4, fixtures::little(800, is_64 ? 8 : 4));
        elf.replace(is_64 ? 0x3a : 0x2e, 4, fixtures::little(20, 2) + fixtures::little(10, 2));
        os(elf + image);
        std::string line = [&] {
            scene.write("bad.img", elf + "none");
            return failure(scene.folder / "bad.img");
        }();
        CHECK_THAT(line, Contains("AppImage") && Contains("no squashfs follows"));
        std::string far = elf;
        far.replace(is_64 ? 0x28 : 0x20, is_64 ? 8 : 4, std::string(is_64 ? 8 : 4, '\xff'));
        scene.write("far.img", far + image);
        CHECK_THAT(failure(scene.folder / "far.img"), Contains("no squashfs follows"));
    }
    // `mksquashfs -stream`: the superblock comes last.
    std::string streamed = "HSQS" + std::string(92, '\0') + image.substr(96);
    streamed.resize((streamed.size() + 4095) / 4096 * 4096);
    os(streamed + image.substr(0, 96));
    {
        // Programs that know the usual form alone get that.
        Fd file = sys::open_file(scene.folder / "x.img", O_RDWR);
        CHECK(squash::has_superblock_last(file.get(), 0));
        squash::put_superblock_first(file.get(), "x.img");
        CHECK_FALSE(squash::has_superblock_last(file.get(), 0));
        squash::put_superblock_first(file.get(), "x.img");
    }
    CHECK(fixtures::Squashfs(scene.folder / "x.img").content("small") == "s");
    scene.write("cut.sqsh", streamed);
    CHECK_THAT(failure(scene.folder / "cut.sqsh"), Contains("not a squashfs file"));
}

TEST_CASE("what is no image of ours is named", "[source]") {
    SourceScene scene;
    auto padded = [](const std::string& magic, size_t at) {
        std::string out(4096, '\0');
        return out.replace(at, magic.size(), magic);
    };
    const std::vector<std::pair<std::string, std::string>> kinds{
        {padded("\xe2\xe1\xf5\xe0", 1024), "EROFS"},
        {padded("\x53\xef", 1080), "ext2, ext3 or ext4"},
        {"#!/usr/bin/env run-singularity\n" + padded("\x53\xef", 1080), "ext2, ext3 or ext4"},
        {padded("PK\x03\x04", 0), "zip archive"},
        {padded("070701", 0), "cpio archive"},
        {"  <!DOCTYPE html>\n<html>", "page of HTML"},
        {"<html><body>" + std::string(1000, 'x'), "page of HTML"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 5\n",
         "git lfs pull"},
        {std::string("\x7f" "ELF\2\1\1\0AI\1", 11) + std::string(4096, '\0'), "AppImage of the first form"},
        {sif({{.type = 0x400A, .offset = 32768, .size = 10}}, "{}"), "OCI-SIF"},
        {std::string(4096, 'x'), "it is not a squashfs file"},
    };
    for (const auto& [bytes, word] : kinds) {
        INFO(word);
        std::string path = scene.write("x.img", bytes), line = failure(path);
        CHECK_THAT(line, Contains(word) && Contains(path));
        CHECK(line.find('\n') == line.npos);
    }
}

TEST_CASE("a SIF file whose overlay would be missing is refused", "[source]") {
    SourceScene scene;
    std::string image = squashfs(scene.folder);
    auto size = static_cast<int64_t>(image.size());
    std::string path = scene.write(
        "x.sif", sif({{.offset = 32768, .size = size},
                      {.offset = 32768 + size, .size = 100, .file_system = 2, .role = 4}},
                     image + std::string(100, 'o')));
    CHECK_THAT(failure(path), Contains("overlay partition") && Contains("ext3"));
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
    scene.write("dir", FileMap{{"version", "Directory Transport Version: 1.1\n"}, {"manifest.json", "{}"}});
    CHECK_THAT(failure(folder + "/dir"), Contains("skopeo copy dir:FOLDER"));
    CHECK_THAT(failure(folder + "/o.tar"), Contains("write oci-archive:" + folder + "/o.tar"));
    CHECK_THAT(failure(folder + "/d.tar"), Contains("write docker-archive:" + folder + "/d.tar"));
    CHECK_THAT(failure(folder + "/x.tar"), Contains("unpack it"));
    scene.write("r.tar", tar_of({{"etc/os", ""}, {"oci-layout", ""}}));
    CHECK_THAT(failure(folder + "/r.tar"), Contains("docker-archive:") && Contains("unpack it"));
    CHECK_THAT(failure(folder + "/p.tar.gz"), Contains("docker-archive:") && Contains("oci-archive:"));
    CHECK_THROWS_WITH(check_is_no_file("x.sqsh", folder), Contains("write ./x.sqsh"));
    CHECK_THROWS_WITH(check_is_no_file("d.tar", folder), Contains("write docker-archive:./d.tar"));
    CHECK_NOTHROW(check_is_no_file("absent.sqsh", folder));
    CHECK_NOTHROW(check_is_no_file("lay", folder));
}
