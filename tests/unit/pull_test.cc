#include "runtime/oci/manifest.hh"
#include "runtime/pull/transfer/pull.hh"

#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/store/names.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/pull_scene.hh"
#include "tests/fixtures/slowness.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::fixtures;
using berth::oci::sha256_of;
using Catch::Contains;
using test::HttpCall;
using test::HttpReply;
using test::Server;

TEST_CASE("an image is pulled, merged and recorded; a second pull is one HEAD", "[pull]") {
    PullScene scene;
    TwoLayers image;
    image.docker = GENERATE(false, true);
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    CHECK(scene.pull() == digest);
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == 3);
    CHECK(scene.server->count("GET /v2/a/b/manifests/" + digest) == 1);
    CHECK(scene.requests() == 5);

    store::Store store = scene.open();
    CHECK(store.read_document(Digest(digest), "manifest.json") == image.manifest);
    CHECK(store.read_document(Digest(digest), "config.json") == image.config);
    CHECK(reads(store, digest, "etc", "os") == "PRETTY=base\n");
    CHECK(reads(store, digest, "bin", "tool") == "#!tool\n");
    CHECK(reads(store, digest, "", "big") == std::string(300'000, 'b'));
    CHECK(reads(store, digest, "etc", "gone") == "(absent)");
    CHECK(squash::Index::open(store.open_index(Digest(digest)).get(), "index").config().cmd ==
          std::vector<std::string>{"tool"});
    Squashfs first(cat(store.path(), "/layers/", store::layer_file_name(image.layers[0].diff_id)));
    CHECK(first.content("etc/os") == "PRETTY=base\n");
    CHECK_THAT(first.listing(), Contains("/etc/gone"));
    CHECK(scene.objects("tmp") == 0);

    size_t before = scene.requests();
    CHECK(scene.pull() == digest);
    CHECK(scene.requests() == before + 1);
    CHECK(scene.server->log().back() == "HEAD /v2/a/b/manifests/1");
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.pull(":1", pull::Policy::missing) == digest);
    CHECK(scene.pull(":1", pull::Policy::never) == digest);
    CHECK(scene.requests() == before + 1);
}

TEST_CASE("an image index leads to this machine's image, by tag and by digest", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string digest = image.add_to(scene.content);
    std::string platform =
        cat(R"(,"platform":{"os":"linux","architecture":")", oci::this_machine().architecture, "\"}");
    std::string foreign =
        descriptor(oci_manifest, sha256_of("x").text(), 1, R"(,"platform":{"os":"plan9","architecture":"mips"})");
    std::string inner = cat(R"({"schemaVersion":2,"manifests":[)", foreign, ",",
                            descriptor(oci_manifest, digest, image.manifest.size(), platform), "]}");
    std::string inner_digest = scene.content.add_manifest(docker_list, inner);
    std::string outer = scene.content.add_manifest(
        oci_index,
        cat(R"({"schemaVersion":2,"manifests":[)", descriptor(docker_list, inner_digest, inner.size()), "]}"));
    scene.content.tag("1", outer);
    CHECK(scene.pull() == outer);
    CHECK(scene.open().image_of(Digest(outer)) == digest);
    CHECK(reads(scene.open(), outer, "etc", "os") == "PRETTY=base\n");
    size_t before = scene.requests();
    CHECK(scene.pull("@" + outer) == outer);
    CHECK(scene.pull("@" + inner_digest) == inner_digest);
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.requests() == before);
}

TEST_CASE("only missing layers are fetched, and a moved tag is followed", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string first = image.add_to(scene.content);
    scene.content.tag("1", first);
    scene.pull();
    image.layers[1] = packed({{"new", "n"}});
    image.make_config();
    std::string second = image.add_to(scene.content);
    scene.content.tag("1", second);
    size_t blobs = scene.server->count("GET /v2/a/b/blobs/");
    CHECK(scene.pull(":1", pull::Policy::missing) == first);
    CHECK(scene.pull() == second);
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == blobs + 2);
    CHECK(reads(scene.open(), second, "", "new") == "n");
    CHECK(reads(scene.open(), first, "bin", "tool") == "#!tool\n");
}

TEST_CASE("another codec is for new layers, and stored ones stay as they are", "[pull]") {
    PullScene scene;
    TwoLayers image;
    scene.content.tag("1", image.add_to(scene.content));
    scene.pull();
    TwoLayers derived;
    derived.layers.push_back(packed({{"more", std::string(300'000, 'm')}}));
    derived.make_config();
    scene.content.tag("2", derived.add_to(scene.content));
    scene.limits.compression = {squash::Codec::lz4, 0};
    size_t before = scene.server->count("GET /v2/a/b/blobs/");
    std::string digest = scene.pull(":2");
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == before + 2);
    store::Store store = scene.open();
    CHECK(reads(store, digest, "", "big") == std::string(300'000, 'b'));
    CHECK(reads(store, digest, "", "more") == std::string(300'000, 'm'));
    std::vector<squash::Codec> codecs;
    squash::Index index = squash::Index::open(store.open_index(Digest(digest)).get(), "index");
    for (const squash::LayerInfo& layer : index.layers()) codecs.push_back(layer.codec);
    CHECK(codecs == std::vector{squash::Codec::zstd, squash::Codec::zstd, squash::Codec::lz4});
}

TEST_CASE("a registry that is down does not stop what is here, and is an error for what is not", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    scene.pull();
    std::string how = GENERATE("gone", "fault", "limits");
    if (how == "gone") scene.server.reset();
    if (how == "fault") scene.fault = [](const HttpCall&) { return HttpReply{.status = 503}; };
    if (how == "limits") scene.fault = [](const HttpCall&) { return HttpReply{.status = 429}; };
    scene.progress.clear();
    CHECK(scene.pull() == digest);
    REQUIRE(scene.progress.size() == 1);
    CHECK_THAT(scene.progress[0], Contains("warning:") && Contains(digest));
    CHECK_FALSE(scene.failure(":2").empty());
    CHECK_FALSE(scene.failure(":1", pull::Policy::always).empty());
    CHECK_THAT(scene.failure(":2", pull::Policy::never), Contains("pull policy is never"));
}

TEST_CASE("an image that the registry denies is not taken from the store", "[pull]") {
    PullScene scene;
    TwoLayers image;
    scene.content.tag("1", image.add_to(scene.content));
    scene.pull();
    scene.fault = [](const HttpCall&) { return HttpReply{.status = 404}; };
    CHECK_THAT(scene.failure(), Contains("not found"));
}

TEST_CASE("a lost index is made anew and a lost layer is fetched again", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    scene.pull();
    std::string index = cat(scene.folder / "store", "/images/", digest.substr(7), "/index");
    size_t before = scene.requests();
    fs::remove(index);
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(reads(scene.open(), digest, "etc", "os") == "PRETTY=base\n");
    fs::remove(index);
    std::ofstream(index) << "not an index";
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.requests() == before);

    fs::remove(cat(scene.folder / "store", "/layers/", store::layer_file_name(image.layers[1].diff_id)));
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.server->count("GET /v2/a/b/blobs/" + sha256_of(image.layers[0].blob).text()) == 1);
    CHECK(scene.server->count("GET /v2/a/b/blobs/" + sha256_of(image.layers[1].blob).text()) == 2);
    CHECK(reads(scene.open(), digest, "bin", "tool") == "#!tool\n");
}

TEST_CASE("hostile row 45: a pull killed in the middle of a layer leaves nothing", "[pull]") {
    PullScene scene;
    TwoLayers image;
    scene.content.tag("1", image.add_to(scene.content));
    std::atomic<bool> reached = false;
    std::string slow = sha256_of(image.layers[0].blob).text();
    scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
        if (!call.target.ends_with(slow)) return {};
        reached = true;
        return HttpReply{.body = image.layers[0].blob, .trickle_ms = 20};
    };
    std::vector<std::string> arguments{"--report", "--store", scene.folder / "store", scene.host + "/a/b:1"};
    pid_t child = start_program(built_program("berth-pull"), arguments, "/dev/null");
    CHECK(fixtures::comes_true([&] { return reached.load(); }));
    fixtures::kill_one(child, SIGKILL);
    CHECK(wait_for(child) == 128 + SIGKILL);
    CHECK_FALSE(scene.open().open_layer(image.layers[0].diff_id));
    scene.check_nothing_published(false);
    scene.fault = {};
    CHECK_FALSE(scene.pull().empty());
}

TEST_CASE("hostile row 46: many pulls of one image at once fetch each blob once", "[pull]") {
    PullScene scene;
    TwoLayers image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    std::atomic<int> succeeded = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i)
        threads.emplace_back([&] {
            pull::Options options;
            store::Store store = scene.open();
            if (pull::pull(store, plan::parse_reference(scene.host + "/a/b:1"), options, [](const std::string&) {}) ==
                digest)
                ++succeeded;
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(succeeded == 16);
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == 3);
    CHECK(scene.objects("tmp") == 0);
}

TEST_CASE("an unknown tag and a bad policy are named", "[pull]") {
    PullScene scene;
    CHECK_THAT(scene.failure(":none"), Contains("not found"));
    scene.check_nothing_published();
    CHECK_THROWS_WITH(pull::policy_of("often"), Contains("not one of newer"));
    CHECK_THROWS_WITH(pull::pull(scene.open(), plan::parse_reference("./x.sqsh"), {}, [](const std::string&) {}),
                      Contains("needs no pull"));
}
