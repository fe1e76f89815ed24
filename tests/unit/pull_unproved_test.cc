// Published layers that a key of the site's has signed: used before they are proved, and proved afterwards.
#include <cstdlib>
#include <filesystem>

#include "runtime/pull/layers/unproved.hh"
#include "tests/catch.hh"
#include "tests/unit/trusted_scene.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

TEST_CASE("unproved: what a key of the site has signed runs before it is proved", "[pull][published]") {
    TrustedScene scene;
    scene.publish_signed();
    auto unproved = scene.pull_early();
    scene.check_image();
    CHECK(scene.conversions() == 0);
    REQUIRE(unproved);
    CHECK(unproved->layers.size() == 2);
    CHECK(scene.remainders_fetched() == 0);
    CHECK(scene.is_unproved());
    CHECK(scene.open().unproved().size() == 2);
    CHECK(pull::prove(scene.open(), *unproved).empty());
    CHECK(scene.remainders_fetched() == 2);
    CHECK(!scene.is_unproved());
    scene.check_image();
}

TEST_CASE("unproved: without the right signature layers are proved before they are used", "[pull][published]") {
    TrustedScene scene;
    SECTION("none") { scene.publish(); }
    SECTION("for another name") { scene.publish_signed("/other/place"); }
    SECTION("by another key") {
        trust::PrivateKey other = test::make_key("P-256");
        std::swap(scene.key, other);
        scene.publish_signed();
    }
    SECTION("of another artifact") {
        scene.publish_signed();
        oci::Artifact artifact = scene.artifact();
        std::swap(artifact.layers[0], artifact.layers[1]);
        scene.publish(oci::make_artifact(artifact));
    }
    SECTION("by a policy that lets anything run") {
        scene.publish_signed();
        write(scene.signatures.policy, R"({"default":[{"type":"insecureAcceptAnything"}]})");
    }
    SECTION("without a policy") {
        scene.publish_signed();
        scene.signatures = {};
    }
    CHECK(!scene.pull_early());
    scene.check_image();
    CHECK(scene.conversions() == 0);
    CHECK(scene.remainders_fetched() == 2);
    CHECK(!scene.is_unproved());
}

TEST_CASE("unproved: nobody waits for a start, so that the proof comes first", "[pull][published]") {
    TrustedScene scene;
    scene.publish_signed();
    scene.pull();
    CHECK(scene.remainders_fetched() == 2);
}

TEST_CASE("unproved: what other users read is proved first", "[pull][published]") {
    TrustedScene scene;
    scene.publish_signed();
    store::Location offered{scene.folder / scene.store};
    offered.offered = true;
    CHECK(!scene.pull_early(store::Store::open(offered)));
    CHECK(scene.remainders_fetched() == 2);
}

TEST_CASE("unproved: a signed layer that is not the image's goes, and is not trusted again", "[pull][published]") {
    TrustedScene scene;
    std::string why;
    SECTION("another file") {
        scene.halves[1] = evil_halves(scene.tars[1]);
        why = "/bin/tool has other bytes";
    }
    SECTION("a remainder that is none") {
        scene.halves[1].remainder = "nothing";
        why = "the zstd data is damaged";
    }
    scene.publish_signed();
    auto unproved = scene.pull_early();
    REQUIRE(unproved);
    std::vector<std::string> problems = pull::prove(scene.open(), *unproved);
    REQUIRE(problems.size() == 1);
    CHECK_THAT(problems[0], Contains(scene.image.layers[1].diff_id.text()) && Contains(why) &&
                                Contains("removed from the store"));
    CHECK(!scene.open().open_layer(scene.image.layers[1].diff_id));
    CHECK(scene.is_unproved());
    CHECK(!scene.pull_early());
    CHECK(scene.conversions() == 1);
    scene.check_image();
    // What was converted is no longer in doubt.
    CHECK(!scene.is_unproved());
}

TEST_CASE("unproved: whatever byte of a signed artifact is changed, the image is right", "[pull][published]") {
    TrustedScene scene;
    scene.publish_signed();
    std::string good = oci::make_artifact(scene.artifact());
    size_t step = std::getenv("BERTH_TEST_FLIPS") != nullptr ? 1 : 61;
    unsigned early = 0;
    for (size_t at = 0; at < good.size(); at += step) {
        INFO("byte " << at);
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        scene.publish(bad);
        scene.store = cat("store", at);
        if (scene.pull_early()) ++early;
        scene.check_image();
        std::filesystem::remove_all(scene.folder / scene.store);
    }
    CHECK(early == 0);
}

TEST_CASE("unproved: a pull that ends before its image is there leaves each layer marked", "[pull][published]") {
    TrustedScene scene;
    scene.publish_signed();
    scene.fault = [&](const test::HttpCall& call) -> std::optional<test::HttpReply> {
        bool is_small = call.target.ends_with(oci::sha256_of(scene.halves[1].squashfs).text());
        bool is_blob = call.target.ends_with(scene.image.layers[1].digest());
        return is_small || is_blob ? std::optional(test::HttpReply{.status = 404}) : std::nullopt;
    };
    CHECK_THROWS_AS(scene.pull_early(), Error);
    store::Store store = scene.open();
    for (size_t i : {0U, 1U}) {
        const Digest& layer = scene.image.layers[i].diff_id;
        CHECK(static_cast<bool>(store.open_layer(layer)) == store.is_unproved(layer));
    }
}

TEST_CASE("unproved: what the registry does not say is no fault of the layer", "[pull][published]") {
    TrustedScene scene;
    scene.publish_signed();
    auto unproved = scene.pull_early();
    REQUIRE(unproved);
    SECTION("it is gone") {
        scene.fault = [](const test::HttpCall&) { return test::HttpReply{.status = 404}; };
    }
    SECTION("it sends other bytes than it named") {
        for (const Halves& one : scene.halves)
            scene.content.replace_blob(oci::sha256_of(one.remainder).text(), std::string(one.remainder.size(), 'x'));
    }
    CHECK(pull::prove(scene.open(), *unproved).empty());
    CHECK(scene.is_unproved());
    scene.check_image();
}

TEST_CASE("unproved: a signed file that cannot be read as a layer is never used", "[pull][published]") {
    TrustedScene scene;
    scene.halves[1].squashfs[scene.halves[1].squashfs.size() - 200] ^= 1;  // in the sums of its blocks
    scene.publish_signed();
    auto unproved = scene.pull_early();
    REQUIRE(unproved);
    CHECK(unproved->layers.size() == 1);
    CHECK(scene.conversions() == 1);
    scene.check_image();
}

TEST_CASE("unproved: a layer that was removed meanwhile needs no proof", "[pull][published]") {
    TrustedScene scene;
    scene.publish_signed();
    auto unproved = scene.pull_early();
    REQUIRE(unproved);
    std::filesystem::remove_all(scene.folder / "store/images");
    std::filesystem::remove_all(scene.folder / "store/layers");
    CHECK(pull::prove(scene.open(), *unproved).empty());
    CHECK(scene.objects("images") == 0);
}
