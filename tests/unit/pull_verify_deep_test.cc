// berth verify --deep: whether stored layers are those of their images.
#include "runtime/pull/verify/verify_deep.hh"

#include <unistd.h>

#include "tests/catch.hh"
#include "tests/fixtures/published_scene.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

namespace {

struct DeepScene : PublishedScene {
    DeepScene() { pull(); }

    pull::Verified verify(const std::vector<std::string>& images = {}) {
        pull::Meter meter("");
        pull::Verified out;
        auto same = [this](const plan::Reference&) { return options(); };
        pull::verify_deep(open(), images, same, meter, out);
        return out;
    }
    /// Puts another layer file, sealed and whole, in the place of the second layer.
    void plant(const std::string& squashfs) {
        store::NewFile file = open().new_file();
        sys::write_all(file.fd(), squashfs, "the layer");
        open().publish_layer(std::move(file), image.layers[1].diff_id);
    }
};

}  // namespace

TEST_CASE("verify --deep: layers are proved by the registry's own ones", "[pull][published]") {
    DeepScene scene;
    size_t before = scene.conversions();
    pull::Verified verified = scene.verify();
    CHECK(verified.proved == 2);
    CHECK(verified.problems.empty());
    CHECK(verified.unchecked.empty());
    CHECK(scene.conversions() == before + 2);
}

TEST_CASE("verify --deep: layers are proved by what is published of them", "[pull][published]") {
    DeepScene scene;
    size_t before = scene.conversions();
    scene.publish();
    scene.open().mark_unproved(scene.image.layers[0].diff_id);
    CHECK(scene.verify().proved == 2);
    CHECK(scene.conversions() == before);
    CHECK(scene.open().unproved().empty());
}

TEST_CASE("verify --deep: a layer that is another one is removed, however whole", "[pull][published]") {
    DeepScene scene;
    if (GENERATE(false, true)) scene.publish();
    scene.plant(evil_halves(evil_tar).squashfs);
    pull::Meter meter("");
    CHECK(pull::verify(scene.open(), meter).problems.size() <= 1);  // its index is another one at most
    pull::Verified verified = scene.verify();
    CHECK(verified.proved == 1);
    REQUIRE(verified.problems.size() == 1);
    CHECK_THAT(verified.problems[0],
               Contains("layer 2 of 2 of image " + scene.host + "/a/b:1: not what the image has") &&
                   Contains("; removed"));
    REQUIRE(verified.incomplete.size() == 1);
    CHECK(verified.incomplete[0].digest == Digest(scene.digest));
    CHECK(!scene.open().open_layer(scene.image.layers[1].diff_id));
    scene.pull();
    scene.check_image();
}

TEST_CASE("verify --deep: what cannot be known is told, and costs no layer", "[pull][published]") {
    DeepScene scene;
    scene.open().mark_unproved(scene.image.layers[0].diff_id);
    SECTION("a registry that is gone") {
        scene.fault = [](const test::HttpCall&) { return test::HttpReply{.status = 404}; };
    }
    SECTION("a registry that sends other bytes") {
        for (const ServedLayer& layer : scene.image.layers)
            scene.content.replace_blob(layer.digest(), std::string(layer.blob.size(), 'x'));
    }
    pull::Verified verified = scene.verify();
    CHECK(verified.proved == 0);
    CHECK(verified.problems.empty());
    CHECK(verified.unchecked.size() == 2);
    CHECK(!scene.open().unproved().empty());
    scene.check_image();
}

TEST_CASE("verify --deep: a layer of two images that cannot be known is known of neither", "[pull][published]") {
    DeepScene scene;
    TwoLayers other = scene.image;
    other.config.insert(other.config.rfind('}'), R"(,"variant":"v1")");
    std::string second = other.add_to(scene.content);
    scene.content.tag("2", second);
    scene.pull(":2");
    scene.open().mark_unproved(scene.image.layers[0].diff_id);
    scene.fault = [](const test::HttpCall&) { return test::HttpReply{.status = 404}; };
    CHECK(scene.verify().unchecked.size() == 4);
    CHECK(!scene.open().unproved().empty());
    scene.fault = nullptr;
    CHECK(scene.verify().proved == 2);
    CHECK(scene.open().unproved().empty());
}

TEST_CASE("verify --deep: images by their names, and one without a tag", "[pull][published]") {
    DeepScene scene;
    CHECK(scene.verify({scene.host + "/a/b:1"}).proved == 2);
    CHECK_THROWS_WITH(scene.verify({"other:1"}), Catch::StartsWith("verifying image other:1: not in the store"));
    std::filesystem::remove_all(scene.folder / "store/refs");
    pull::Verified verified = scene.verify();
    CHECK(verified.proved == 0);
    REQUIRE(verified.unchecked.size() == 1);
    CHECK_THAT(verified.unchecked[0], Contains("no tag says where it came from"));
}

TEST_CASE("verify --deep: the command says how many layers it has proved", "[pull][published]") {
    DeepScene scene;
    std::string verify = cat(built_program("berth-pull"), " verify --store ", scene.open().path());
    CommandResult result = run_command(verify + " --deep");
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains("1 images and 2 layers checked, 2 layers proved, 0 problems"));
    CHECK_THAT(run_command(verify).output, !Contains("proved"));
    scene.open().mark_unproved(scene.image.layers[0].diff_id);
    CHECK_THAT(run_command(verify).output, Contains("on their publisher's signature so far; berth verify --deep"));
    scene.plant(evil_halves(evil_tar).squashfs);
    CHECK(run_command(verify + " --deep --repair").status == 0);
    scene.check_image();
}
