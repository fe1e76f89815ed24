// Pulls of images whose layers are published in the form in which Berth runs them.
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "runtime/pull/layers/published.hh"
#include "runtime/pull/verify/verify.hh"
#include "tests/catch.hh"
#include "tests/fixtures/published_scene.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

TEST_CASE("published: layers come as they run, and none is converted", "[pull][published]") {
    PublishedScene scene;
    scene.publish();
    CHECK(scene.pull() == scene.digest);
    scene.check_image();
    CHECK(scene.conversions() == 0);
    CHECK_THAT(scene.told(), !Contains("converted here"));
    // The layer files are the same, byte for byte.
    store::Store mine = scene.open();
    for (size_t i = 0; i < scene.halves.size(); ++i)
        CHECK((file_bytes(mine.open_layer(scene.image.layers[i].diff_id).get()) == scene.halves[i].squashfs));
}

TEST_CASE("published: a repository of the site's is asked in place of the image's", "[pull][published]") {
    PublishedScene scene;
    scene.publish();
    scene.artifacts.repository = scene.host + "/site/layers";
    scene.pull();
    CHECK(scene.server->count("GET /v2/site/layers/manifests/" + oci::artifact_tag(Digest(scene.digest))) == 1);
}

TEST_CASE("published: nothing is asked where the site has no place for it", "[pull][published]") {
    PublishedScene scene;
    scene.publish();
    scene.artifacts = {};
    scene.pull();
    CHECK(scene.conversions() == 2);
    CHECK(scene.server->count("GET /v2/a/b/manifests/" + oci::artifact_tag(Digest(scene.digest))) == 0);
}

TEST_CASE("published: what is not there, or cannot be read, costs a line and no pull", "[pull][published]") {
    PublishedScene scene;
    SECTION("nothing is published") {
        scene.pull();
        CHECK_THAT(scene.told(), !Contains("converted here"));
    }
    SECTION("something else is there") {
        scene.publish(scene.image.manifest);
        scene.pull();
        CHECK_THAT(scene.told(), Contains("layers are converted here: ") && Contains("it is no application/vnd.berth"));
    }
    SECTION("layers of another image") {
        oci::Artifact artifact = scene.artifact();
        artifact.subject.digest = oci::sha256_of("other");
        scene.publish(oci::make_artifact(artifact));
        scene.pull();
        CHECK_THAT(scene.told(), Contains("layers are converted here: ") && Contains("they are of sha256:"));
    }
    SECTION("a form of later releases") {
        std::string document = oci::make_artifact(scene.artifact());
        for (size_t at; (at = document.find("layer.v1.squashfs")) != document.npos;)
            document.replace(at, 8, "layer.v2");
        scene.publish(document);
        scene.pull();
        CHECK_THAT(scene.told(), !Contains("converted here"));
    }
    SECTION("a registry that is in trouble") {
        scene.publish();
        scene.fault = [&](const test::HttpCall& call) -> std::optional<test::HttpReply> {
            if (call.target.find(".berth") == call.target.npos) return std::nullopt;
            return test::HttpReply{.status = 503};
        };
        scene.pull();
        CHECK_THAT(scene.told(), Contains("layers are converted here: "));
    }
    CHECK(scene.conversions() == 2);
    scene.check_image();
}

TEST_CASE("published: one layer of two is fetched, the other converted", "[pull][published]") {
    PublishedScene scene;
    oci::Artifact artifact = scene.artifact();
    artifact.layers.pop_back();
    scene.publish(oci::make_artifact(artifact));
    scene.pull();
    scene.check_image();
    CHECK(scene.conversions() == 1);
    CHECK_THAT(scene.told(), !Contains("converted here"));
    // Which of them came so is known afterwards.
    pull::Meter meter("");
    pull::Verified verified = pull::verify(scene.open(), meter);
    CHECK(verified.from_elsewhere ==
          std::vector{"image " + scene.digest + ": 1 of 2 layers from " + scene.host + "/a/b, ready-made"});
    CHECK(verified.origins.count(scene.image.layers[0].diff_id) == 1);
}

TEST_CASE("published: a layer file that shows something else is never taken", "[pull][published]") {
    PublishedScene scene;
    std::string why;
    SECTION("with a remainder that still makes the right stream") {
        scene.halves[1] = evil_halves(scene.tars[1]);
        why = "/bin/tool has other bytes";
    }
    SECTION("with the remainder of its own stream") {
        scene.halves[1] = evil_halves(evil_tar);
        why = cat("its diff_id is ", oci::sha256_of(evil_tar), " instead of ", scene.image.layers[1].diff_id);
    }
    scene.publish();
    scene.pull();
    scene.check_image();
    CHECK(scene.conversions() == 1);
    CHECK_THAT(scene.told(),
               Contains("is converted here, since what is published of it cannot be used") && Contains(why));
}

TEST_CASE("published: halves that do not belong together are never taken", "[pull][published]") {
    PublishedScene scene;
    std::swap(scene.halves[0].remainder, scene.halves[1].remainder);
    scene.publish();
    scene.pull();
    scene.check_image();
    CHECK(scene.conversions() == 2);
}

TEST_CASE("published: sizes that the site does not let images have, or the disk has no room for, cost no byte",
          "[pull][published]") {
    PublishedScene scene;
    oci::Artifact artifact = scene.artifact();
    SECTION("the site") {
        artifact.layers[0].squashfs.size = 300'000'000;
        scene.limits.image_size = 20'000'000;
        scene.limits.image_size_rule = "berth.conf:2: limits.image_size";
        scene.publish(oci::make_artifact(artifact));
        scene.pull();
        CHECK_THAT(scene.told(),
                   Contains("layers are converted here: ") && Contains("berth.conf:2: limits.image_size"));
        CHECK(scene.conversions() == 2);
    }
    SECTION("the disk") {
        artifact.layers[0].squashfs.size = 1ULL << 50;
        scene.publish(oci::make_artifact(artifact));
        scene.pull();
        CHECK_THAT(scene.told(), Contains("is converted here") && Contains("the disk has room for"));
        CHECK(scene.conversions() == 1);
    }
    scene.check_image();
    CHECK(scene.server->count("GET /v2/a/b/blobs/" + artifact.layers[0].squashfs.digest.text()) == 0);
}

TEST_CASE("published: a layer that fills the disk is converted, which may take less", "[pull][published]") {
    PublishedScene scene;
    oci::Artifact artifact = scene.artifact();
    artifact.layers[0].squashfs = scene.blob(oci::published_layer_type, squash::test::noise(20 << 20, 4));
    scene.publish(oci::make_artifact(artifact));
    // As on a disk with so much room.
    auto* before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit files{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &files) == 0);
    rlimit small = files;
    small.rlim_cur = 16 << 20;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    try {
        scene.pull();
    } catch (const Error& problem) {
        scene.progress.push_back(problem.what());
    }
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &files) == 0);
    std::signal(SIGXFSZ, before);
    CHECK_THAT(scene.told(), Contains("is converted here"));
    CHECK(scene.conversions() == 1);
    scene.check_image();
}

TEST_CASE("published: a registry that sends other bytes than it named", "[pull][published]") {
    PublishedScene scene;
    scene.publish();
    scene.content.replace_blob(oci::sha256_of(scene.halves[0].remainder).text(), scene.halves[1].remainder);
    std::string wrong = scene.halves[1].squashfs;
    wrong[wrong.size() / 2] ^= 1;
    scene.content.replace_blob(oci::sha256_of(scene.halves[1].squashfs).text(), wrong);
    scene.pull();
    scene.check_image();
    CHECK(scene.conversions() == 2);
}

TEST_CASE("published: whatever byte is changed by who publishes, the image is right", "[pull][published]") {
    PublishedScene scene;
    const char* wanted = std::getenv("BERTH_TEST_FLIPS");
    unsigned flips = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : 2'000;
    std::mt19937 random(7);
    Halves good = scene.halves[0];
    // What the digests would find is left out: the artifact names the bytes as they are.
    struct Memory : oci::Source {
        std::map<std::string, std::string> blobs;
        std::optional<oci::Resolution> resolve() override { return std::nullopt; }
        oci::Document manifest(const std::optional<Digest>&) override { throw Error("none"); }
        std::string blob(const oci::Descriptor& blob) override { return blobs.at(blob.digest.text()); }
        void stream(const oci::Descriptor& blob, const oci::Sink& sink) override { sink(blobs.at(blob.digest.text())); }
        std::unique_ptr<oci::Source> sibling() const override { return nullptr; }
    } source;
    auto add = [&](const char* type, const std::string& bytes) {
        Digest digest = oci::sha256_of(bytes);
        source.blobs = {{digest.text(), bytes}};
        return oci::Descriptor{type, digest, bytes.size()};
    };
    TempFolder folder;
    unsigned taken = 0;
    for (unsigned i = 0; i < flips; ++i) {
        Halves bad = good;
        std::string& half = i % 2 == 0 ? bad.squashfs : bad.remainder;
        size_t at = random() % half.size();
        half[at] = static_cast<char>(half[at] ^ (1U << random() % 8));
        INFO("flip " << i << " at byte " << at);
        Fd file = folder.create("layer");
        oci::Descriptor squashfs = add("layer", bad.squashfs);
        std::string kept = source.blobs.begin()->second;
        oci::Descriptor remainder = add("remainder", bad.remainder);
        source.blobs.emplace(squashfs.digest.text(), kept);
        try {
            oci::PublishedLayer layer{scene.image.layers[0].diff_id, squashfs, remainder};
            pull::fetch_published(source, layer, file.get(), "layer x", [](uint64_t) {});
            pull::prove_published(source, layer, file.get(), "layer x", [] {});
        } catch (const Error&) {
            continue;
        }
        ++taken;
        // It may show no other tree than the one that was published.
        squash::LayerFiles files(file.get(), "layer x");
        for (const auto& [name, content] : std::map<std::string, std::string>{
                 {"etc/os", "base\n"}, {"etc/gone", "x"}, {"big", std::string(300'000, 'b')}}) {
            auto found = files.find(name);
            REQUIRE(found);
            std::string bytes(found->data.size, '\0');
            CHECK((files.read(found->data, 0, bytes) && bytes == content));
        }
    }
    // Bytes that mean nothing: padding, fields of the superblock that nobody reads.
    CHECK(taken <= flips / 10);
}
