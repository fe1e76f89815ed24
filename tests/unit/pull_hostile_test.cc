#include "runtime/pull/transfer/pull.hh"

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pull_scene.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::fixtures;
using berth::oci::sha256_of;
using Catch::Contains;
using test::HttpCall;
using test::HttpReply;
using test::Server;

TEST_CASE("hostile row 17: a truncated layer is refused and nothing is published", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string whole = image.layers[0].blob;
    SECTION("the transfer breaks off") {
        scene.content.tag("1", image.add_to(scene.content));
        scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
            if (!call.target.ends_with(sha256_of(whole).text())) return {};
            return HttpReply{.body = whole.substr(0, whole.size() / 2), .declared_size = whole.size()};
        };
    }
    SECTION("the blob itself is cut, and consistently named") {
        image.layers[0].blob = whole.substr(0, whole.size() / 2);
        scene.content.tag("1", image.add_to(scene.content));
    }
    SECTION("garbage follows") {
        image.layers[0].blob = whole + "garbage";
        scene.content.tag("1", image.add_to(scene.content));
    }
    CHECK_FALSE(scene.failure().empty());
    CHECK_FALSE(scene.open().open_layer(image.layers[0].diff_id));
    scene.check_nothing_published(false);
}

TEST_CASE("hostile row 23: wrong digests and sizes of every kind are refused and nothing is published", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    auto instead = [&](const std::string& what, const std::string& bytes) {
        scene.fault = [=](const HttpCall& call) -> std::optional<HttpReply> {
            if (call.method != "GET" || !call.target.ends_with(what)) return {};
            return HttpReply{.headers = {"Content-Type: " + oci_manifest}, .body = bytes};
        };
    };
    std::string config = image.config;
    const ServedLayer& layer = image.layers[0];
    SECTION("manifest") { instead(digest, image.manifest + " "); }
    SECTION("config of the same size") {
        config[config.find("amd64")] = 'x', instead(sha256_of(image.config).text(), config);
    }
    SECTION("config, one byte less") { instead(sha256_of(config).text(), config.substr(1)); }
    SECTION("config, one byte more") { instead(sha256_of(config).text(), config + " "); }
    SECTION("layer, one byte less") {
        instead(sha256_of(layer.blob).text(), layer.blob.substr(0, layer.blob.size() - 1));
    }
    SECTION("layer, one byte more") { instead(sha256_of(layer.blob).text(), layer.blob + '\0'); }
    SECTION("layer of the same size and content, with another digest") {
        std::string other = layer.blob;
        other[4] = static_cast<char>(other[4] + 1);  // the time stamp of gzip
        instead(sha256_of(layer.blob).text(), other);
    }
    CHECK_FALSE(scene.failure().empty());
    CHECK_FALSE(scene.failure("@" + digest).empty());
    CHECK_FALSE(scene.open().open_layer(layer.diff_id));
    scene.check_nothing_published(false);
}

TEST_CASE("hostile row 24: a manifest over 4 MiB or 1024 layers pulls nothing", "[pull]") {
    PullScene scene;
    TwoLayers image;
    if (GENERATE(true, false)) {
        ServedLayer empty = packed({});
        image.layers.assign(1025, empty);
        image.make_config();
        scene.content.tag("1", image.add_to(scene.content));
    } else {
        scene.content.tag("1", scene.content.add_manifest(oci_manifest, std::string((4 << 20) + 1, ' ')));
    }
    CHECK_THAT(scene.failure(), Contains("larger than") || Contains("more than 1024"));
    scene.check_nothing_published();
    CHECK(scene.server->count("GET /v2/a/b/blobs") == 0);
}

TEST_CASE("hostile rows 25, 26, 28, 30, 31: a manifest that is not right pulls nothing", "[pull]") {
    for (const std::string& bytes :
         {std::string(100'000, '['), std::string(R"({"schemaVersion":2,"layers":[],"layers":[]})"),
          std::string(R"({"schemaVersion":2,"layers":[],"manifests":[]})"), std::string("{\"a\":\"\xff\"}"),
          cat(R"({"schemaVersion":2,"config":)",
              descriptor("application/vnd.oci.image.config.v1+json", "sha256:../../x", 1), R"(,"layers":[]})"),
          cat(R"({"schemaVersion":2,"manifests":[)",
              descriptor(oci_manifest, sha256_of("x").text(), 1, R"(,"platform":{"os":"plan9","architecture":"mips"})"),
              "]}"),
          std::string(R"({"schemaVersion":1,"fsLayers":[]})")}) {
        PullScene scene;
        scene.content.tag("1", scene.content.add_manifest("application/json", bytes));
        CHECK_FALSE(scene.failure().empty());
        scene.check_nothing_published();
        CHECK(scene.requests() == 2);
    }
}

TEST_CASE("hostile row 27: indexes are followed four deep", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string digest = image.add_to(scene.content);
    size_t size = image.manifest.size();
    std::string type = oci_manifest;
    for (int depth = 1; depth <= 5; ++depth) {
        std::string list = cat(R"({"schemaVersion":2,"manifests":[)", descriptor(type, digest, size), "]}");
        digest = scene.content.add_manifest(oci_index, list);
        size = list.size();
        type = oci_index;
        scene.content.tag(cat(depth), digest);
    }
    CHECK_THAT(scene.failure(":5"), Contains("more than 4 image indexes"));
    scene.check_nothing_published();
    CHECK_FALSE(scene.pull(":4").empty());
}

TEST_CASE("hostile row 29: a layer whose content is not what the config says is refused", "[pull]") {
    PullScene scene;
    TwoLayers image;
    image.layers[0].diff_id = sha256_of("something else");
    image.make_config();
    scene.content.tag("1", image.add_to(scene.content));
    CHECK_THAT(scene.failure(), Contains("diff_id is") && Contains("instead of " + image.layers[0].diff_id.text()));
    CHECK_FALSE(scene.open().open_layer(image.layers[0].diff_id));
    CHECK_FALSE(scene.open().open_layer(packed({}).diff_id));
    scene.check_nothing_published(false);

    image.config = cat(R"({"rootfs":{"type":"layers","diff_ids":[")", image.layers[1].diff_id, "\"]}}");
    scene.content.tag("2", image.add_to(scene.content));
    CHECK_THAT(scene.failure(":2"), Contains("1 diff_ids for 2 layers"));
}

TEST_CASE("hostile row 36: the addresses that a manifest gives for a foreign layer are not asked", "[pull]") {
    PullScene scene;
    Server elsewhere([](const HttpCall&) { return HttpReply{}; });
    TwoLayers image;
    image.add_to(scene.content);
    std::string urls = cat(R"(,"urls":["http://)", elsewhere.host(), R"(/layer"])");
    for (size_t at = image.manifest.find("layers"); (at = image.manifest.find("}", at + 1)) < image.manifest.size() - 2;
         at += urls.size())
        image.manifest.insert(at, urls);
    REQUIRE_THAT(image.manifest, Contains("/layer\"]}]}"));
    scene.content.tag("1", scene.content.add_manifest(oci_manifest, image.manifest));
    CHECK_FALSE(scene.pull().empty());
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == 3);
    CHECK(elsewhere.log().empty());
}
