#include "runtime/pull/export/import.hh"

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/plan/platform.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/store_scene.hh"

using namespace berth;
using fixtures::ServedLayer;
using fixtures::TarBuilder;

TEST_CASE("an image is imported as one squashfs file with its settings", "[pull]") {
    fixtures::TempFolder folder;
    test::Content content;
    std::string digest = fixtures::serve_image(
        content,
        {ServedLayer(TarBuilder().directory("etc/").file("etc/environment", "old").file("gone", "x").finished()),
         ServedLayer(TarBuilder().file(".wh.gone", "").file("tool", "#!").finished())},
        "it's");
    content.tag("1", digest);
    test::Server server([&](const test::HttpCall& call) { return content.answer(call); });
    std::string path = folder / "x.sqsh", store = folder / "store";
    std::string command =
        cat(fixtures::built_program("berth-pull"), " import --store ", store, " -o ", path, " ", server.host(), "/a:1");
    auto result = fixtures::run_command(command);
    INFO(result.output);
    REQUIRE(result.status == 0);
    CHECK_THAT(result.output, Catch::Contains(digest));
    fixtures::Squashfs image(path);
    CHECK(image.content("tool") == "#!");
    CHECK(image.line("gone").empty());
    CHECK(image.content("etc/environment") == "NOTE=it's\nPATH=/bin\n");
    CHECK_THAT(image.content("etc/rc"), Catch::Contains("exec '/bin/tool'\n"));
    auto config = squash::read_config(sys::open_file(path, O_RDONLY).get(), path);
    REQUIRE(config);
    CHECK(config->digest == digest);
    CHECK(config->process.cmd == std::vector<std::string>{"/bin/tool"});

    result = fixtures::run_command(command);
    CHECK(result.status == exit_failure);
    CHECK_THAT(result.output, Catch::Contains("exists already; remove it or use --force"));
    CHECK(fixtures::run_command(command + " --force --plain").status == 0);
    CHECK(image.content("etc/environment") == "old");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
    CHECK(fixtures::run_command(cat(fixtures::built_program("berth-pull"), " import --store ", store,
                                    " -o /dev/full/x ", server.host(), "/a:1"))
              .status == exit_failure);
}

TEST_CASE("an import shares its data with the layers where the file system can do that", "[pull]") {
    fixtures::TempFolder folder;
    test::Content content;
    constexpr size_t size = 20'000'000;
    std::string image = fixtures::serve_image(
        content, {ServedLayer(TarBuilder().file("one", fixtures::noise_of(size, 1)).finished()),
                  ServedLayer(TarBuilder().file("two", fixtures::noise_of(size, 2)).finished())});
    content.tag("1", image);
    test::Server server([&](const test::HttpCall& call) { return content.answer(call); });
    std::string command = fixtures::built_program("berth-pull"), name = server.host() + "/a:1";
    // The store is on the file system that the import is written to.
    std::string script =
        "mkdir mounted; truncate -s 400M disk; mkfs.xfs -q disk; mount -o loop disk mounted; cd mounted; "
        "$0 --quiet --store $PWD/store $1 >&2; sync .; stat -f -c %f .; "
        "$0 import --quiet --store $PWD/store -o x.sqsh $1 >&2; sync .; stat -f -c %f .; stat -c %s x.sqsh; "
        "unsquashfs -cat x.sqsh one two | sha256sum";
    auto result = fixtures::run_command(cat("cd ", folder.path(), "; unshare --mount --propagation private ",
                                            "sh -ec '", script, "' ", command, " ", name, " 2> told || cat told"));
    if (result.output.find("mount: ") != result.output.npos) {
        if (std::getenv("BERTH_MUST_RUN") != nullptr) FAIL(result.output);
        WARN("not tested: it needs root, loop devices and xfs: " << result.output);
        return;
    }
    INFO(result.output);
    std::vector<std::string> lines = split(result.output, '\n');
    REQUIRE(lines.size() >= 4);
    uint64_t block = 4096, before = std::stoull(lines[0]), after = std::stoull(lines[1]);
    CHECK(std::stoull(lines[2]) > 2 * size);
    CHECK((before - after) * block < size / 4);
    CHECK(lines[3].starts_with(
        oci::sha256_of(fixtures::noise_of(size, 1) + fixtures::noise_of(size, 2)).hex()));
}

TEST_CASE("an image is imported for another architecture, and stays unknown as what the tag means here", "[pull]") {
    fixtures::TempFolder folder;
    test::Content content;
    auto image = [&](const std::string& architecture) {
        return fixtures::serve_image(
            content, {ServedLayer(TarBuilder().file("platform", architecture).finished())}, "", architecture);
    };
    std::string own(plan::machine_architecture), other = own == "arm64" ? "amd64" : "arm64", entries;
    for (const std::string& architecture : {own, other}) {
        std::string digest = image(architecture);
        size_t size = content.answer({"GET", "/v2/a/manifests/" + digest, {}}).body.size();
        entries += cat(entries.empty() ? "" : ",", R"({"mediaType":"application/vnd.oci.image.manifest.v1+json",)",
                       R"("digest":")", digest, R"(","size":)", size,
                       R"(,"platform":{"os":"linux","architecture":")", architecture, R"("}})");
    }
    content.tag("1", content.add_manifest("application/vnd.oci.image.index.v1+json",
                                          cat(R"({"schemaVersion":2,"manifests":[)", entries, "]}")));
    content.tag("bare", image(own));
    test::Server server([&](const test::HttpCall& call) { return content.answer(call); });
    std::string path = folder / "x.sqsh", store = folder / "store";
    auto import = [&](const std::string& words) {
        return fixtures::run_command(cat(fixtures::built_program("berth-pull"), " import --force --store ", store,
                                         " -o ", path, " ", words));
    };
    auto result = import(cat("--arch ", other, " ", server.host(), "/a:1"));
    INFO(result.output);
    REQUIRE(result.status == 0);
    CHECK(fixtures::Squashfs(path).content("platform") == other);
    CHECK(squash::read_config(sys::open_file(path, O_RDONLY).get(), path)->process.architecture == other);
    CHECK_FALSE(store::Store::open(store).digest_of(plan::parse_reference(server.host() + "/a:1")));
    REQUIRE(import(server.host() + "/a:1").status == 0);
    CHECK(fixtures::Squashfs(path).content("platform") == own);
    REQUIRE(import(cat("--policy missing --arch ", other, " ", server.host(), "/a:1")).status == 0);
    CHECK(fixtures::Squashfs(path).content("platform") == other);

    for (const char* brought : {"nothing", "the image of this machine"}) {
        INFO(brought);
        result = import(cat("--arch ", other, " ", server.host(), "/a:bare"));
        CHECK(result.status == exit_failure);
        CHECK_THAT(result.output, Catch::Contains(cat("no image for linux/", other, " in it; it is for linux/", own)));
        REQUIRE(import(server.host() + "/a:bare").status == 0);
    }
    CHECK_THAT(import(cat("--policy never --arch ", other, " ", server.host(), "/a:1")).output,
               Catch::Contains("the pull policy is never"));
}

TEST_CASE("the script for Enroot quotes what a shell would read", "[pull]") {
    plan::ImageConfig config;
    config.env = {"A=$(x)", "B=two\nlines"};
    config.entrypoint = {"/bin/it's", "$(reboot)"};
    config.working_dir = "/a b";
    auto files = pull::enroot_files(config);
    CHECK(files[0].content == "A=$(x)\n");
    CHECK_THAT(files[1].content,
               Catch::Contains("exec '/bin/it'\\''s' '$(reboot)' \"$@\"") && Catch::Contains("cd '/a b' &&"));
    // An image whose entrypoint is Enroot's script keeps that.
    config.entrypoint = {"/bin/sh", "/etc/rc"};
    files = pull::enroot_files(config);
    REQUIRE(files.size() == 1);
    CHECK(files[0].path == "etc/environment");
}

TEST_CASE("an import is told beside its pull, and so is one that fails", "[pull]") {
    fixtures::TempFolder folder;
    test::Content content;
    content.tag("1", fixtures::serve_image(content, {ServedLayer(TarBuilder().file("a", "x").finished())}));
    test::Server server([&](const test::HttpCall& call) { return content.answer(call); });
    std::string log = folder / "events", file = folder / "x.sqsh";
    std::string command = cat("BERTH_EVENTS_LOG=", log, " ", fixtures::built_program("berth-pull"), " import --store ",
                              folder / "store", " -o ", file, " ", server.host(), "/a:1");
    CHECK(fixtures::run_command(command).status == 0);
    CHECK(fixtures::run_command(command).status == exit_failure);
    std::vector<std::string> lines = split(sys::read_file(log), '\n');
    REQUIRE(lines.size() == 4);
    CHECK_THAT(lines[0], Catch::Contains(R"("kind":"pull")"));
    CHECK_THAT(lines[1], Catch::Contains(R"("kind":"import")") && Catch::Contains(cat(R"("file":")", file, "\"")) &&
                             Catch::Contains(R"("writing":)"));
    CHECK_THAT(lines[2], Catch::Contains(R"("kind":"failure")") &&
                             Catch::Contains(R"("of":"import","cause":"image","error":"writing )"));
}
