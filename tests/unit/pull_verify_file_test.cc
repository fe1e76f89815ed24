#include "runtime/pull/verify/verify_file.hh"

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/format/file_config.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/store_scene.hh"

using namespace berth;
using Catch::Contains;
using Catch::EndsWith;
using fixtures::ServedLayer;
using fixtures::TarBuilder;

namespace {

/// Two images whose files are the same but for one extended attribute, and a file of the first one.
struct FileScene {
    fixtures::TempFolder folder;
    test::Content content;
    test::Server server{[this](const test::HttpCall& call) { return content.answer(call); }};
    std::string path = folder / "x.sqsh", store = folder / "store", host = server.host();

    FileScene() {
        for (const char* name : {"1", "2"}) {
            TarBuilder lower;
            lower.directory("bin/").file("bin/tool", "#!", 0755).file("big", fixtures::noise_of(3'000'000, 1));
            lower.file("gone", "x").symlink("link", "bin/tool").pax({{"SCHILY.xattr.user.note", name}});
            lower.file("noted", "n");
            std::string links = TarBuilder().file(".wh.gone", "").file("one", "1").hardlink("two", "one").finished();
            std::string digest = fixtures::serve_image(content, {ServedLayer(lower.finished()), ServedLayer(links)});
            content.tag(name, digest);
        }
        REQUIRE(run("import --quiet -o " + path + " " + image("1")).status == 0);
    }
    std::string image(const std::string& tag) const { return cat(host, "/a:", tag); }
    fixtures::CommandResult run(const std::string& words) const {
        size_t space = words.find(' ');
        return fixtures::run_command(cat(fixtures::built_program("berth-pull"), ' ', words.substr(0, space),
                                         " --store ", store, " --plain-http ", host, words.substr(space)));
    }
    fixtures::CommandResult verify(const std::string& more = {}) const {
        return run(cat("verify --file ", path, ' ', more));
    }
    /// Packs the files anew, in another form, after the shell command has changed them; what stands behind the squashfs
    /// stays.
    void change(const std::string& command, const std::string& packing = {}, bool keep_times = true) const {
        auto config = squash::read_config(sys::open_file(path, O_RDONLY).get(), path);
        REQUIRE(config);
        std::string times = keep_times ? "find . -exec touch -h -d @0 {} +; " : "";
        auto result = fixtures::run_command(
            cat("set -e; cd ", folder.path(), "; unsquashfs -quiet -no-progress -d t x.sqsh; cd t; ", command, "; ",
                times, "cd ..; mksquashfs t x.sqsh -noappend -quiet -no-progress -comp gzip -all-root ", packing,
                "; rm -r t"));
        INFO(result.output);
        REQUIRE(result.status == 0);
        squash::append_config(sys::open_file(path, O_RDWR).get(), *config, path);
    }
};

}  // namespace

TEST_CASE("verify --file: a file of berth import is its image, however it is packed", "[pull]") {
    FileScene scene;
    CHECK_THAT(scene.verify().output,
               Contains("x.sqsh: is image ") && Contains(" files and directories, 3.0 MB compared"));
    CHECK(scene.verify("--quiet").output.empty());
    CHECK(scene.verify(scene.image("1")).status == 0);
    scene.change("true");
    CHECK(scene.verify().status == 0);
    // Also in a store that has nothing yet.
    scene.store = scene.folder / "other";
    CHECK(scene.verify().status == 0);
    CHECK(scene.run("import --quiet --force --plain -o " + scene.path + " " + scene.image("1")).status == 0);
    CHECK(scene.verify().status == 0);
}

TEST_CASE("verify --file: whatever is changed in a file is found", "[pull]") {
    FileScene scene;
    struct Change {
        std::string command, problem, packing = {};
    };
    Change change = GENERATE(
        Change{"echo x > bin/extra", "bin/extra: is not in the image"}, Change{"rm bin/tool", "bin/tool: is missing"},
        Change{"mkdir new", "new: is not in the image"}, Change{"chmod 700 bin/tool", "bin/tool: has another mode"},
        Change{"printf Y | dd of=big bs=1 seek=2500000 conv=notrunc status=none", "big: has other bytes"},
        Change{"truncate -s 5 bin/tool", "bin/tool: has 5 bytes instead of 2"},
        Change{"ln -sf elsewhere link", "link: leads to another place"},
        Change{"rm link; echo > link", "link: is a file of another kind"},
        Change{"cp -p one x; mv x two", "two: has other hard links"},
        Change{"echo LD_PRELOAD=/x > etc/environment", "etc/environment: is not in the image"},
        Change{"echo > etc/profile", "etc/profile: is not in the image"}, Change{"chmod 777 .", "/: has another mode"},
        Change{"true", "has another owner", "-force-uid 7"});
    CAPTURE(change.command);
    scene.change(change.command, change.packing);
    auto result = scene.verify();
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains("x.sqsh: is not image ") && EndsWith(change.problem + "\n"));
}

TEST_CASE("verify --file: times, attributes and settings of another image", "[pull]") {
    FileScene scene;
    SECTION("an attribute") {
        auto result = scene.verify(scene.image("2"));
        CHECK(result.status == 1);
        CHECK_THAT(result.output, EndsWith("noted: has another user.note\n"));
    }
    SECTION("a time") {
        scene.change("touch -d @5 bin/tool", "", false);
        CHECK_THAT(scene.verify().output, EndsWith("bin/tool: has another time of change\n"));
    }
    SECTION("settings") {
        auto config = squash::read_config(sys::open_file(scene.path, O_RDONLY).get(), scene.path);
        config->process.cmd = {"/bin/other"};
        squash::append_config(sys::open_file(scene.path, O_RDWR).get(), *config, scene.path);
        CHECK_THAT(scene.verify().output, EndsWith("its settings of the process are others\n"));
    }
}

TEST_CASE("verify --file: what cannot be compared is an error", "[pull]") {
    FileScene scene;
    auto refused = [&](const std::string& words, const std::string& why) {
        auto result = scene.run(words);
        CAPTURE(words);
        CHECK(result.status != 0);
        CHECK_THAT(result.output, Contains(why));
    };
    refused("verify " + scene.image("1"), "--deep or --file");
    refused(cat("verify --file ", scene.path, " a b"), "it can be one image only");
    refused(cat("verify --file ", scene.path, " --deep"), "excludes");
    refused("verify --file /dev/null", "/dev/null");
    // What the site forbids is not pulled for it either.
    std::string rule = cat("[policy]\nregistries_denied = \"", scene.host, "\"\n");
    sys::write_all(scene.folder.create("site").get(), rule, "site");
    scene.store = scene.folder / "empty";
    refused(cat("verify --file ", scene.path, " --site ", scene.folder / "site"), "forbids images from");
    scene.store = scene.folder / "store";
    auto config = squash::read_config(sys::open_file(scene.path, O_RDONLY).get(), scene.path);
    config->reference.clear();
    squash::append_config(sys::open_file(scene.path, O_RDWR).get(), *config, scene.path);
    CHECK(scene.verify().status == 0);
    scene.store = scene.folder / "other";
    refused("verify --file " + scene.path, "nothing says where it comes from; name it behind the file");
    CHECK(scene.verify(scene.image("1")).status == 0);
    REQUIRE(fixtures::run_command(cat("cd ", scene.folder.path(), " && unsquashfs -quiet -no-progress -d t x.sqsh && "
                                      "mksquashfs t x.sqsh -noappend -quiet -no-progress")).status == 0);
    refused("verify --file " + scene.path, "it does not say which image it is of");
}
