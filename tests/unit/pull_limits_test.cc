// What the site limits of a pull, and which images it refuses: the real programs against a registry.
#include <chrono>
#include <fstream>

#include "runtime/store/store.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using Catch::Contains;
using fixtures::ServedLayer;
using fixtures::TarBuilder;
using test::HttpCall;
using test::HttpReply;

namespace {

struct Scene {
    fixtures::TempFolder folder;
    test::Content content;
    ServedLayer layer{TarBuilder().file("a", std::string(4000, 'x')).finished()};
    std::string digest = fixtures::serve_image(content, {layer});
    unsigned trickle_ms = 0;
    std::unique_ptr<test::Server> server;
    std::string site = folder / "berth.conf";

    void serve() {
        content.tag("1", digest);
        server = std::make_unique<test::Server>([this](const HttpCall& call) {
            HttpReply reply = content.answer(call);
            if (call.target.find("/blobs/" + layer.digest()) != std::string::npos) reply.trickle_ms = trickle_ms;
            return reply;
        });
    }
    fixtures::CommandResult pull(const std::string& settings, const std::string& what = "") {
        std::ofstream(site) << settings;
        return fixtures::run_command(cat(fixtures::built_program("berth-pull"), " ", what, " --site ", site,
                                         " --store ", folder / "store", " --quiet ", server->host(), "/a:1"));
    }
    bool published() { return store::Store::open(folder / "store").has_image(Digest(digest)); }
};

}  // namespace

TEST_CASE("pull: an image whose layers are larger than limits.image_size is not fetched", "[pull]") {
    Scene scene;
    scene.serve();
    auto refused = scene.pull("[limits]\nimage_size = \"10\"\n");
    CHECK(refused.status == 125);
    CHECK_THAT(refused.output, Contains(cat(scene.site, ":2: limits.image_size")));
    CHECK(scene.server->count(cat("GET /v2/a/blobs/", scene.layer.digest())) == 0);
    CHECK_FALSE(scene.published());
    CHECK(scene.pull("[limits]\nimage_size = \"1M\"\n").status == 0);
    CHECK(scene.published());
}

TEST_CASE("pull: one that takes longer than limits.pull_time ends, with nothing published", "[pull]") {
    Scene scene;
    scene.trickle_ms = 400;
    scene.serve();
    auto began = std::chrono::steady_clock::now();
    auto refused = scene.pull("[limits]\npull_time = 1\n");
    CHECK(refused.status == 125);
    CHECK_THAT(refused.output,
               Contains("not pulled after 1 seconds") && Contains(cat(scene.site, ":2: limits.pull_time")));
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(10));
    CHECK_FALSE(scene.published());
}

TEST_CASE("pull: what the policy forbids is not asked for, by pull or import", "[pull]") {
    Scene scene;
    scene.serve();
    std::string what = GENERATE("", "import -o /dev/null");
    auto refused = scene.pull("[policy]\nregistries_allowed = \"nvcr.io\"\n", what);
    CHECK(refused.status == 125);
    CHECK_THAT(refused.output, Contains("policy.registries_allowed allows images from nvcr.io only"));
    CHECK(scene.server->log().empty());
}
