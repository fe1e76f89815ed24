// SIF files that lie in a registry as artifacts: berth-pull sif.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sif_artifact.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/extracted.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/sif_file.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using Catch::Contains;

namespace {

const std::string manifest_type = "application/vnd.oci.image.manifest.v1+json";

/// A registry that has a SIF file under a tag, and a store.
struct SifScene {
    fixtures::TempFolder folder;
    std::string store = folder / "store", bytes, blob, manifest;
    test::Content content;
    bool is_down = false;
    test::Server server;

    SifScene() : server([this](const test::HttpCall& call) {
        return is_down ? test::HttpReply{.hang_up = true} : content.answer(call);
    }) {
        std::string squashfs = std::string("hsqs") + std::string(4092, 's');
        bytes = fixtures::sif({{.offset = 32768, .size = static_cast<int64_t>(squashfs.size())}}, squashfs);
        publish();
    }

    void publish() {
        blob = content.add_blob(bytes);
        std::string config = content.add_blob("{}");
        manifest = content.add_manifest(
            manifest_type,
            cat(R"({"schemaVersion":2,"mediaType":")", manifest_type, R"(","config":{"mediaType":)",
                R"("application/vnd.sylabs.sif.config.v1+json","digest":")", config, R"(","size":2},"layers":[)",
                R"({"mediaType":")", oci::sif_layer_type, R"(","digest":")", blob, R"(","size":)", bytes.size(),
                "}]}"));
        content.tag("1", manifest);
    }

    fixtures::CommandResult pull(const std::string& words) const {
        return fixtures::run_command(cat(fixtures::built_program("berth-pull"), " sif --store ", store, " ", words));
    }
    std::string name() const { return server.host() + "/a:1"; }
    std::string path() const { return store::sif_path(store::Store::open(store), Digest(manifest)); }
};

}  // namespace

TEST_CASE("pull: a SIF file comes to the store once, byte for byte", "[pull]") {
    SifScene scene;
    auto result = scene.pull(scene.name());
    INFO(result.output);
    REQUIRE(result.status == 0);
    CHECK_THAT(result.output, Contains(scene.manifest));
    CHECK(sys::read_file(scene.path()) == scene.bytes);
    CHECK(scene.pull(scene.name()).status == 0);
    CHECK(scene.server.count("GET /v2/a/blobs/") == 1);
    // By its digest nobody is asked any more, and a registry that is down stops nobody who has the file.
    size_t before = scene.server.log().size();
    CHECK(scene.pull(cat(scene.server.host(), "/a@", scene.manifest)).status == 0);
    CHECK(scene.server.log().size() == before);
    scene.is_down = true;
    auto without = scene.pull(scene.name());
    CHECK(without.status == 0);
    CHECK_THAT(without.output, Contains("using the file of the last pull") && Contains(scene.manifest));
    CHECK(scene.pull(cat("--policy missing ", scene.name())).status == 0);
    CHECK(scene.pull(cat("--policy never ", scene.server.host(), "/a:2")).status == exit_failure);
    // No tag of an image's.
    auto image = fixtures::run_command(cat(fixtures::built_program("berth-pull"), " --policy never --store ",
                                           scene.store, " ", scene.name()));
    CHECK(image.status == exit_failure);
    CHECK_THAT(image.output, Contains("not in the store"));
}

TEST_CASE("pull: a SIF file that its digest does not name is refused, and nothing is kept", "[pull]") {
    SifScene scene;
    std::string other = scene.bytes;
    other.back() = 't';
    scene.content.replace_blob(scene.blob, other);
    auto result = scene.pull(scene.name());
    CHECK(result.status == exit_failure);
    CHECK_THAT(result.output, Contains("the SIF file's digest is sha256:") && Contains("refused"));
    CHECK(scene.path().empty());
    CHECK(std::filesystem::is_empty(scene.store + "/tmp"));
    CHECK(scene.pull(cat("-o ", scene.folder / "x.sif", " ", scene.name())).status == exit_failure);
    CHECK_FALSE(std::filesystem::exists(scene.folder / "x.sif"));
}

TEST_CASE("pull: an artifact whose file is none of an image is refused", "[pull]") {
    SifScene scene;
    scene.bytes = std::string(5000, 'n');
    scene.publish();
    auto result = scene.pull(scene.name());
    CHECK(result.status == exit_failure);
    CHECK_THAT(result.output, Contains("is no SIF file"));
    CHECK(scene.path().empty());
}

TEST_CASE("pull: a SIF file is written under a name, and replaces none without --force", "[pull]") {
    SifScene scene;
    std::string path = scene.folder / "x.sif", words = cat("-o ", path, " ", scene.name());
    REQUIRE(scene.pull(words).status == 0);
    CHECK(sys::read_file(path) == scene.bytes);
    auto again = scene.pull(words);
    CHECK(again.status == exit_failure);
    CHECK_THAT(again.output, Contains("exists already"));
    CHECK(scene.pull("--force " + words).status == 0);
    // What is asked for as a file is not kept in the store.
    CHECK((!std::filesystem::exists(scene.store) || scene.path().empty()));
}

TEST_CASE("pull: limits.image_size and policy.registries_allowed hold for a SIF file", "[pull]") {
    SifScene scene;
    auto small = fixtures::run_command(cat("BERTH_LIMITS_IMAGE_SIZE=4k ", fixtures::built_program("berth-pull"),
                                           " sif --store ", scene.store, " ", scene.name()));
    CHECK(small.status == exit_failure);
    CHECK_THAT(small.output, Contains("limits.image_size"));
    std::string site = scene.folder / "berth.conf";
    sys::write_all(sys::open_file(site, O_WRONLY | O_CREAT, 0644).get(),
                   "[policy]\nregistries_allowed = \"other.example\"\n", "the site file");
    auto refused = scene.pull(cat("--site ", site, " ", scene.name()));
    CHECK(refused.status == exit_failure);
    CHECK_THAT(refused.output, Contains("registries_allowed"));
    CHECK(scene.server.count("GET /v2/a/blobs/") == 0);
}

TEST_CASE("pull: a SIF file that was not used for long is removed", "[pull]") {
    SifScene scene;
    REQUIRE(scene.pull(scene.name()).status == 0);
    store::Store store = store::Store::open(scene.store);
    store::KeepLimits limits{.age = 100 * 24 * 3600};
    store::collect(store, limits, false, false);
    CHECK_FALSE(scene.path().empty());
    timespec times[2] = {{1000, 0}, {1000, 0}};
    for (const auto& lease : std::filesystem::directory_iterator(scene.store + "/leases"))
        REQUIRE(::utimensat(AT_FDCWD, lease.path().c_str(), times, 0) == 0);
    store::collect(store, limits, false, false);
    CHECK(scene.path().empty());
}
