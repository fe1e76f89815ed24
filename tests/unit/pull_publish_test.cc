// Publishing layers, signing and pruning them, at registries with the referrers API and without.
#include "runtime/pull/publish/publish.hh"

#include <nlohmann/json.hpp>

#include "runtime/oci/artifact.hh"
#include "runtime/pull/publish/prune.hh"
#include "runtime/pull/publish/sign.hh"
#include "runtime/trust/signature/attachment.hh"
#include "tests/catch.hh"
#include "tests/fixtures/published_scene.hh"
#include "tests/registry/writable.hh"
#include "tests/unit/trust_keys.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

namespace {

/// An image in one registry, whose layers go to another.
struct PublishScene : PullScene {
    test::WritableRegistry registry;
    test::Server target;
    TwoLayers image;
    std::string digest;
    plan::Reference place;

    explicit PublishScene(bool has_referrers)
        : registry(has_referrers), target([this](const test::HttpCall& call) { return registry.answer(call); }) {
        digest = image.add_to(content);
        content.tag("1", digest);
        place = plan::parse_reference(target.host() + "/site/layers");
        artifacts = {target.host() + "/site/layers", [](const plan::Reference&) { return oci::RegistryOptions(); }};
    }
    pull::PublishedImage publish(bool anew = false) {
        pull::Meter meter("");
        return pull::publish_image(open(), plan::parse_reference(host + "/a/b:1"), options(), place, anew, meter);
    }
    plan::Reference artifact() const {
        plan::Reference out = place;
        out.tag = oci::artifact_tag(Digest(digest));
        return out;
    }
    std::string manifest() const { return registry.manifest("site/layers", oci::artifact_tag(Digest(digest))); }
    size_t uploads() const { return target.count("POST "); }
};

}  // namespace

TEST_CASE("publish: a registry with the referrers API lists the artifact, one without has the list at a tag",
          "[pull][published]") {
    bool has_referrers = GENERATE(true, false);
    PublishScene scene(has_referrers);
    pull::PublishedImage published = scene.publish();
    CHECK(published.layers == 2);
    CHECK(published.left_out == 0);
    oci::Registry registry(scene.place, {});
    auto list = registry.find_referrers(Digest(scene.digest));
    CHECK(list.has_value() == has_referrers);
    std::string at_tag = scene.registry.manifest("site/layers", oci::referrers_tag(Digest(scene.digest)));
    CHECK(at_tag.empty() == has_referrers);
    auto entries = nlohmann::json::parse(list ? *list : at_tag).at("manifests");
    REQUIRE(entries.size() == 1);
    CHECK(entries[0].at("digest") == oci::sha256_of(scene.manifest()).text());
    CHECK(entries[0].at("artifactType") == oci::artifact_type);
}

TEST_CASE("publish: what is brought is what pulls take", "[pull][published]") {
    PublishScene scene(GENERATE(true, false));
    scene.publish();
    scene.store = "another";
    CHECK(scene.pull() == scene.digest);
    CHECK(reads(scene.open(), scene.digest, "bin", "tool") == "#!tool\n");
    for (const std::string& line : scene.progress) CHECK_THAT(line, !Contains("converted here"));
    // The first pull, and publishing, which reads each once more.
    for (const ServedLayer& layer : scene.image.layers)
        CHECK(scene.server->count("GET /v2/a/b/blobs/" + layer.digest()) == 2);
}

TEST_CASE("publish: what is there already is not brought again, but by force", "[pull][published]") {
    PublishScene scene(true);
    scene.publish();
    std::string first = scene.manifest();
    size_t uploads = scene.uploads();
    CHECK(scene.publish().was_there);
    CHECK(scene.uploads() == uploads);
    CHECK(!scene.publish(true).was_there);
    CHECK(scene.manifest() == first);
    CHECK(scene.uploads() == uploads);  // the same blobs
}

TEST_CASE("publish: a signature is made once, and goes with its artifact", "[pull][published]") {
    PublishScene scene(GENERATE(true, false));
    scene.publish();
    trust::PrivateKey key = test::make_key("P-256"), other = test::make_key("ED25519");
    std::string tag = trust::signature_tag(oci::sha256_of(scene.manifest()));
    auto signed_by = [&](const trust::PrivateKey& by) {
        pull::sign_image(scene.artifact(), by, {});
        return trust::parse_attachments(scene.registry.manifest("site/layers", tag), "m").size();
    };
    CHECK(signed_by(key) == 1);
    CHECK(signed_by(key) == 1);
    CHECK(signed_by(other) == 2);
    CHECK(signed_by(key) == 2);
    // The image's registry has no list of tags: nothing is known of it.
    pull::Meter meter("");
    pull::Pruned pruned = pull::prune_published(scene.place, scene.artifacts.registry, false, meter);
    CHECK(pruned.left.size() == 1);
    scene.fault = [](const test::HttpCall& call) -> std::optional<test::HttpReply> {
        if (call.target.find("/tags/list") != call.target.npos) return test::HttpReply{.body = R"({"tags":[]})"};
        return call.target.find("/manifests/") != call.target.npos ? std::optional(test::HttpReply{.status = 404})
                                                                  : std::nullopt;
    };
    pruned = pull::prune_published(scene.place, scene.artifacts.registry, false, meter);
    CHECK(pruned.removed.size() == 1);
    CHECK(scene.registry.tags("site/layers").empty());
}
