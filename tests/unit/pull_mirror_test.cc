#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/transfer/pull.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/registry/server.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using Catch::Contains;
using test::HttpCall;
using test::HttpReply;
using test::Server;

namespace {

/// An image of two layers at a registry, and mirrors that may change what they send.
struct Scene {
    using Change = std::function<std::string(const std::string& digest, std::string bytes)>;

    fixtures::TempFolder folder;
    test::Content content;
    std::vector<std::string> layers, progress;
    std::string digest;
    Server origin{[this](const HttpCall& call) { return content.answer(call); }};
    std::vector<std::unique_ptr<Server>> mirrors;

    Scene() {
        std::vector<fixtures::ServedLayer> served;
        for (uint32_t seed : {1U, 2U})
            served.emplace_back(
                fixtures::TarBuilder().file(cat("file", seed), squash::test::noise(3'000'000, seed)).finished());
        for (const fixtures::ServedLayer& layer : served) layers.push_back(layer.digest());
        digest = fixtures::serve_image(content, served);
        content.tag("1", digest);
    }

    void add_mirror(const Change& change) {
        mirrors.push_back(std::make_unique<Server>([this, change](const HttpCall& call) {
            HttpReply reply = content.answer(call);
            size_t at = call.target.find("/blobs/");
            if (at != call.target.npos && reply.status == 200)
                reply.body = change(call.target.substr(at + 7), reply.body);
            return reply;
        }));
    }

    std::string pull() {
        pull::Options options;
        options.registry.retry.first = std::chrono::milliseconds(10);
        options.limits.connections = 1;
        for (const auto& mirror : mirrors) options.registry.mirrors.push_back(mirror->host());
        return pull::pull(store::Store::open(folder / "store"), plan::parse_reference(origin.host() + "/a/b:1"),
                          options, [this](const std::string& line) { progress.push_back(line); })
            .text();
    }

    std::vector<std::string> warnings() const {
        std::vector<std::string> out;
        for (const std::string& line : progress)
            if (line.starts_with("warning")) out.push_back(line);
        return out;
    }
};

std::string flipped(std::string bytes) {
    bytes[bytes.size() / 2] ^= 1;
    return bytes;
}

}  // namespace

TEST_CASE("a layer that a mirror sends wrong comes from the next mirror, with one warning", "[pull]") {
    Scene scene;
    std::string how = GENERATE("flipped", "short", "long", "other", "no gzip");
    INFO(how);
    scene.add_mirror([&, how](const std::string& digest, std::string bytes) {
        if (digest != scene.layers[0]) return bytes;
        if (how == "flipped") return flipped(bytes);
        if (how == "short") return bytes.substr(0, bytes.size() - 100'000);
        if (how == "long") return bytes + "more";
        if (how == "other") return fixtures::gzip("") + std::string(bytes.size() - fixtures::gzip("").size(), '\0');
        return std::string(bytes.size(), 'x');
    });
    scene.add_mirror([](const std::string&, std::string bytes) { return bytes; });
    CHECK(scene.pull() == scene.digest);
    REQUIRE(scene.warnings().size() == 1);
    CHECK_THAT(scene.warnings()[0],
               Contains("mirror " + scene.mirrors[0]->host() + " passed over") && Contains(scene.layers[0]));
    CHECK(scene.mirrors[1]->count("GET /v2/a/b/blobs/" + scene.layers[0]) == 1);
    CHECK(scene.origin.count("GET ") == 0);
}

TEST_CASE("a layer that every mirror sends wrong comes from the registry", "[pull]") {
    Scene scene;
    auto wrong = [&](const std::string& digest, std::string bytes) {
        return digest == scene.layers[1] ? flipped(bytes) : bytes;
    };
    scene.add_mirror(wrong);
    scene.add_mirror(wrong);
    CHECK(scene.pull() == scene.digest);
    CHECK(scene.warnings().size() == 2);
    // The other layer too, when it comes after the mirrors were passed over.
    CHECK(scene.origin.count("GET /v2/a/b/blobs/" + scene.layers[1]) == 1);
}

TEST_CASE("a config that a mirror sends wrong comes from the registry", "[pull]") {
    Scene scene;
    scene.add_mirror([&](const std::string& digest, std::string bytes) {
        return digest == scene.layers[0] || digest == scene.layers[1] ? bytes : flipped(bytes);
    });
    CHECK(scene.pull() == scene.digest);
    CHECK(scene.warnings().size() == 1);
    CHECK(scene.origin.count("GET ") == 3);
}

TEST_CASE("what the registry itself sends wrong is one error, and nothing is published", "[pull]") {
    Scene scene;
    std::string blob = scene.content.answer({"GET", "/v2/a/b/blobs/" + scene.layers[0], {}}).body;
    scene.content.replace_blob(scene.layers[0], flipped(blob));
    scene.add_mirror([](const std::string&, std::string bytes) { return bytes; });
    CHECK_THROWS_WITH(scene.pull(), Contains(scene.layers[0]));
    CHECK(scene.warnings().size() == 1);
    CHECK(scene.origin.count("GET /v2/a/b/blobs/" + scene.layers[0]) == 1);
    CHECK_FALSE(store::Store::open(scene.folder / "store").has_image(Digest(scene.digest)));
}
