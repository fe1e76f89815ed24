// Pulls of images whose layers are published in the form in which Berth runs them.
#include <cstdlib>
#include <random>

#include "runtime/base/sys.hh"
#include "runtime/config/site.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/remainder/split.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/transfer/published.hh"
#include "runtime/pull/transfer/seal.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pull_scene.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

namespace {

/// Both halves of a layer, as `berth publish` makes them.
struct Halves {
    std::string squashfs, remainder;
};

std::string file_bytes(int fd) { return sys::read_file(cat("/proc/self/fd/", fd)); }

std::string split(const std::string& tar, squash::LayerFiles& files) {
    std::string out;
    oci::TarSplitter splitter(files, [&](std::string_view packed) { out += packed; });
    splitter.feed(tar);
    splitter.finish();
    return out;
}

Halves halves_of(const store::Store& store, const Digest& diff_id, const std::string& tar) {
    Fd file = store.open_layer(diff_id);
    squash::LayerFiles files(file.get(), "layer", *pull::read_seal(file.get(), "layer"));
    return {file_bytes(file.get()), split(tar, files)};
}

/// An image that a first pull has converted, and whose layers can be published beside it.
struct PublishedScene : PullScene {
    std::vector<std::string> tars{tar_of({{"etc/", ""}, {"etc/os", "base\n"}, {"etc/gone", "x"},
                                          {"big", std::string(300'000, 'b')}}),
                                  tar_of({{"etc/.wh.gone", ""}, {"bin/", ""}, {"bin/tool", "#!tool\n"}})};
    TwoLayers image;
    std::string digest;
    std::vector<Halves> halves;

    PublishedScene() {
        image.layers = {ServedLayer(tars[0]), ServedLayer(tars[1])};
        image.make_config();
        digest = image.add_to(content);
        content.tag("1", digest);
        store = "publisher";
        pull();
        for (size_t i = 0; i < tars.size(); ++i)
            halves.push_back(halves_of(open(), image.layers[i].diff_id, tars[i]));
        store = "store";
        artifacts = {plan::artifacts_beside_images, [](const plan::Reference&) {
                         oci::RegistryOptions out;
                         out.retry.first = std::chrono::milliseconds(10);
                         return out;
                     }};
    }

    oci::Artifact artifact() {
        oci::Artifact out{{oci_manifest, Digest(digest), image.manifest.size()}, {}};
        for (size_t i = 0; i < halves.size(); ++i)
            out.layers.push_back({image.layers[i].diff_id,
                                  blob(oci::published_layer_type, halves[i].squashfs),
                                  blob(oci::remainder_type, halves[i].remainder)});
        return out;
    }
    oci::Descriptor blob(const char* type, const std::string& bytes) {
        return {type, Digest(content.add_blob(bytes)), bytes.size()};
    }
    void publish(const std::string& document) {
        content.tag(oci::artifact_tag(Digest(digest)), content.add_manifest(oci_manifest, document));
    }
    void publish() { publish(oci::make_artifact(artifact())); }

    /// How often the layer was asked for in the form that has to be converted.
    size_t conversions() const {
        size_t out = 0;
        for (const ServedLayer& layer : image.layers) out += server->count("GET /v2/a/b/blobs/" + layer.digest());
        return out - image.layers.size();  // those of the first pull
    }
    std::string told() const {
        std::string out;
        for (const std::string& line : progress) out += line + "\n";
        return out;
    }
    void check_image() {
        CHECK(reads(open(), digest, "etc", "os") == "base\n");
        CHECK(reads(open(), digest, "bin", "tool") == "#!tool\n");
        CHECK(reads(open(), digest, "", "big") == std::string(300'000, 'b'));
        CHECK(reads(open(), digest, "etc", "gone") == "(absent)");
    }
};

}  // namespace

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
}

TEST_CASE("published: a layer file that shows something else is never taken", "[pull][published]") {
    PublishedScene scene;
    // Of another image, whose tool is not this one's.
    std::string evil = tar_of({{"etc/.wh.gone", ""}, {"bin/", ""}, {"bin/tool", "#!evil\n"}});
    PullScene other;
    TwoLayers image;
    image.layers = {ServedLayer(evil)};
    image.make_config();
    other.content.tag("1", image.add_to(other.content));
    other.pull();
    Fd file = other.open().open_layer(image.layers[0].diff_id);
    squash::LayerFiles files(file.get(), "layer", *pull::read_seal(file.get(), "layer"));
    std::string why;
    SECTION("with a remainder that still makes the right stream") {
        scene.halves[1] = {file_bytes(file.get()), split(scene.tars[1], files)};
        why = "/bin/tool has other bytes";
    }
    SECTION("with the remainder of its own stream") {
        scene.halves[1] = {file_bytes(file.get()), split(evil, files)};
        why = cat("its diff_id is ", image.layers[0].diff_id, " instead of ", scene.image.layers[1].diff_id);
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
            pull::fetch_published(source, {scene.image.layers[0].diff_id, squashfs, remainder}, file.get(), "layer x",
                                  [](uint64_t) {});
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
