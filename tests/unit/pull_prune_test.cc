// berth publish --prune: which artifacts have an image, and what is done about the others.
#include "runtime/pull/publish/prune.hh"

#include "tests/catch.hh"
#include "tests/fixtures/published_scene.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

namespace {

/// The layers of an image of a/b are published in site/layers, by a registry that has one list of tags for all.
struct PruneScene : PublishedScene {
    std::vector<std::string> deleted;
    int list_status = 200, delete_status = 202;
    bool image_is_there = true;

    PruneScene() {
        fault = [this](const test::HttpCall& call) { return answer(call); };
    }
    std::optional<test::HttpReply> answer(const test::HttpCall& call) {
        bool of_image = call.target.starts_with("/v2/a/b/");
        if (call.target.find("/tags/list") != call.target.npos) return list(call, of_image);
        if (call.method == "DELETE") {
            deleted.push_back(call.target);
            return test::HttpReply{.status = delete_status};
        }
        if (of_image && call.target.find("/manifests/") != call.target.npos && !image_is_there)
            return test::HttpReply{.status = 404};
        return std::nullopt;
    }
    /// Two pages, the second of which has the artifact.
    test::HttpReply list(const test::HttpCall& call, bool of_image) const {
        if (of_image) return {.status = list_status, .body = R"({"name":"a/b","tags":["1"]})"};
        bool second = call.target.find("last=latest") != call.target.npos;
        std::string tag = second ? oci::artifact_tag(Digest(digest)) : "latest";
        test::HttpReply out{.body = R"({"name":"site/layers","tags":[")" + tag + "\"]}"};
        if (!second) out.headers.push_back("Link: </v2/elsewhere>; rel=\"next\"");
        return out;
    }
    pull::Pruned prune(bool dry = false) {
        pull::Meter meter("");
        return pull::prune_published(plan::parse_reference(host + "/site/layers"), artifacts.registry, dry, meter);
    }
    std::string removal() const {
        return "/v2/site/layers/manifests/" + oci::sha256_of(oci::make_artifact(artifact_)).text();
    }
    void publish_for(const std::string& image_name) {
        artifact_ = artifact();
        artifact_.image = image_name;
        publish(oci::make_artifact(artifact_));
    }

  private:
    oci::Artifact artifact_{{"", Digest(digest)}, "", {}};
};

}  // namespace

TEST_CASE("prune: an artifact goes with its image, and not before", "[pull][published]") {
    PruneScene scene;
    scene.publish_for(scene.host + "/a/b");
    CHECK(scene.prune().kept == 1);
    CHECK(scene.deleted.empty());
    scene.image_is_there = false;
    CHECK(scene.prune(true).removed == std::vector<std::string>{oci::artifact_tag(Digest(scene.digest))});
    CHECK(scene.deleted.empty());
    CHECK(scene.prune().removed.size() == 1);
    CHECK(scene.deleted == std::vector<std::string>{scene.removal()});
}

TEST_CASE("prune: what cannot be known costs no artifact", "[pull][published]") {
    PruneScene scene;
    scene.publish_for(scene.host + "/a/b");
    scene.image_is_there = false;
    std::string why;
    SECTION("a repository that hides what it has") {
        scene.list_status = GENERATE(401, 403, 404);
        why = "the tags of " + scene.host + "/a/b";
    }
    SECTION("an artifact that names no repository") {
        scene.publish_for("");
        why = "does not say which repository";
    }
    SECTION("an artifact that names nonsense") {
        scene.publish_for("!");
        why = "!";
    }
    SECTION("something else at such a tag") {
        scene.publish(scene.image.manifest);
        why = "it is no application/vnd.berth";
    }
    pull::Pruned pruned = scene.prune();
    CHECK(pruned.removed.empty());
    REQUIRE(pruned.left.size() == 1);
    CHECK_THAT(pruned.left[0], Contains(".berth: left, since its image is not known: ") && Contains(why));
    CHECK(scene.deleted.empty());
}

TEST_CASE("prune: a registry that lets nothing be removed is an error that names the setting", "[pull][published]") {
    PruneScene scene;
    scene.publish_for(scene.host + "/a/b");
    scene.image_is_there = false;
    scene.delete_status = 405;
    CHECK_THROWS_WITH(scene.prune(), Contains("storage.delete.enabled"));
}

TEST_CASE("prune: tags of artifacts, and lists of referrers", "[pull][published]") {
    Digest digest = oci::sha256_of("x");
    CHECK(oci::is_artifact_tag(oci::artifact_tag(digest)));
    CHECK(!oci::is_artifact_tag(oci::referrers_tag(digest)));
    CHECK(!oci::is_artifact_tag("latest.berth"));
    CHECK(!oci::is_artifact_tag("sha256-12.berth"));
    CHECK(!oci::is_artifact_tag("sha512-" + digest.hex() + ".berth"));
    std::string none = R"({"schemaVersion":2,"manifests":[]})";
    CHECK(oci::without_referrer(none, "list") == none);
    oci::Descriptor mine{oci_manifest, digest, 5};
    CHECK(oci::without_referrer(oci::with_referrer("", mine, "list"), "list").empty());
    std::string other = R"({"manifests":[{"digest":")" + digest.text() + R"(","artifactType":"other"}]})";
    CHECK_THAT(oci::without_referrer(oci::with_referrer(other, mine, "list"), "list"),
               Contains("other") && !Contains(oci::artifact_type));
    CHECK_THROWS_WITH(oci::without_referrer("[]", "list"), Catch::StartsWith("list: "));
}
