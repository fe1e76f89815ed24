#include "runtime/pull/verify/verify.hh"

#include <sys/stat.h>

#include <fstream>
#include <random>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/names.hh"
#include "tests/catch.hh"
#include "tests/fixtures/folder_state.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"

namespace fs = std::filesystem;
using namespace berth;
using Catch::Contains;
using fixtures::ServedLayer;
using fixtures::TarBuilder;

namespace {

struct Scene {
    fixtures::TempFolder folder;
    test::Content content;
    std::unique_ptr<test::Server> server =
        std::make_unique<test::Server>([this](const test::HttpCall& call) { return content.answer(call); });
    std::vector<ServedLayer> layers{
        ServedLayer(TarBuilder().directory("bin/").file("bin/tool", std::string(200'000, 't')).finished()),
        ServedLayer(TarBuilder().file("bin/two", "2").finished())};
    std::string digest = fixtures::serve_image(content, layers);
    store::Store store = store::Store::open(folder / "store");

    Scene() {
        content.tag("1", digest);
        pull({});
    }
    void pull(const pull::Options& options) const {
        pull::pull(store, plan::parse_reference(server->host() + "/a:1"), options, [](const std::string&) {});
    }
    pull::Verified verify() const {
        pull::Meter meter("");
        return pull::verify(store, meter);
    }
    std::string layer(size_t i) const {
        return cat(store.path(), "/layers/", store::layer_file_name(layers[i].diff_id));
    }
    std::string image(const std::string& file) const {
        return cat(store.path(), "/images/", digest.substr(7), "/", file);
    }
    int command(const std::string& more = {}) const {
        return fixtures::run_command(
                   cat(fixtures::built_program("berth-pull"), " verify --store ", store.path(), " ", more))
            .status;
    }
};

}  // namespace

TEST_CASE("a whole store verifies, and a layer file is a squashfs all the same", "[pull]") {
    Scene scene;
    pull::Verified verified = scene.verify();
    CHECK(verified.problems.empty());
    CHECK(verified.images == 1);
    CHECK(verified.layers == 2);
    auto result = fixtures::run_command(
        cat(fixtures::built_program("berth-pull"), " verify --quiet --store ", scene.store.path()));
    CHECK(result.status == 0);
    CHECK(result.output.empty());
    CHECK(scene.command() == 0);
    CHECK(fixtures::Squashfs(scene.layer(1)).content("bin/two") == "2");
}

TEST_CASE("a verification tells the bytes that it reads", "[pull][progress]") {
    Scene scene;
    pull::Meter meter("");
    pull::verify(scene.store, meter);
    uint64_t bytes = fs::file_size(scene.layer(0)) + fs::file_size(scene.layer(1));
    std::vector<uint64_t> totals;
    for (const pull::Event& event : meter.take_events())
        if (event.phase == pull::Phase::verifying) totals.push_back(event.total);
    CHECK(totals == std::vector<uint64_t>{bytes, 0});
}

TEST_CASE("verify: where a layer came from is told of one that is damaged, and kept by later pulls", "[pull]") {
    Scene scene;
    Digest manifest(scene.digest), first = scene.layers[0].diff_id, second = scene.layers[1].diff_id;
    pull::note_origins(scene.store, manifest, {{first, "n3, through nodes of the step"}});
    pull::note_origins(scene.store, manifest, {{second, "n4, through nodes of the step"}});
    CHECK(scene.verify().from_elsewhere ==
          std::vector{cat("image ", manifest, ": 1 of 2 layers from n3, through nodes of the step"),
                      cat("image ", manifest, ": 1 of 2 layers from n4, through nodes of the step")});
    fs::permissions(scene.layer(0), fs::perms::owner_all);
    std::ofstream(scene.layer(0)) << "something else";
    pull::Verified verified = scene.verify();
    REQUIRE(verified.problems.size() == 2);
    CHECK_THAT(verified.problems[0], Catch::EndsWith("removed; it came from n3, through nodes of the step"));
    // What is fetched again and converted here came from nowhere else.
    scene.pull({});
    CHECK(scene.verify().from_elsewhere ==
          std::vector{cat("image ", manifest, ": 1 of 2 layers from n4, through nodes of the step")});
    fs::permissions(scene.image("origins"), fs::perms::owner_all);
    std::ofstream(scene.image("origins"), std::ios::app) << "damage";
    CHECK(scene.verify().problems.empty());
}

TEST_CASE("verify: lines of origins that nobody wrote are passed over", "[pull]") {
    Digest layer(cat("sha256:", std::string(64, 'a')));
    CHECK(pull::parse_origins("").empty());
    CHECK(pull::parse_origins("x\n\n sha256:aa n1\nsha256:aa n1\n").empty());
    CHECK(pull::parse_origins(cat(layer, " n1\33[31m\n")).at(layer) == "n1\\x1b[31m");
    pull::LayerOrigins origins{{layer, "n1"}};
    CHECK(pull::parse_origins(pull::text_of(origins)) == origins);
}

TEST_CASE("hostile row 47: a flipped bit anywhere in a stored object is found and fetched again", "[pull]") {
    Scene scene;
    std::string path;
    size_t problems = 1;
    SECTION("layer, data") { path = scene.layer(0), problems = 2; }
    SECTION("the other layer") { path = scene.layer(1), problems = 2; }
    SECTION("manifest") { path = scene.image("manifest.json"); }
    SECTION("config") { path = scene.image("config.json"); }
    SECTION("index") { path = scene.image("index"); }
    std::mt19937 random(1);
    for (int i = 0; i < 6; ++i) {
        uint64_t size = fs::file_size(path);
        fixtures::flip_bit(path, i == 0 ? size - 1 : random() % size);
        pull::Verified verified = scene.verify();
        INFO((verified.problems.empty() ? "" : verified.problems[0]));
        CHECK(verified.problems.size() == problems);
        CHECK(verified.incomplete.size() == (path.ends_with("/index") ? 0 : 1));
        CHECK(scene.command("--repair") == 0);
        CHECK(scene.verify().problems.empty());
        CHECK(pull::is_complete(scene.store, Digest(scene.digest)));
    }
}

TEST_CASE("damage without a registry is an exit code, a line, and no harm to the rest", "[pull]") {
    Scene scene;
    scene.server.reset();
    fixtures::flip_bit(scene.layer(0), 200);
    CHECK(scene.command("--repair") == 1);
    CHECK_FALSE(fs::exists(scene.layer(0)));
    CHECK(fs::exists(scene.layer(1)));
    CHECK(scene.command() == 1);
    CHECK_THAT(scene.verify().problems.at(0), Contains("is not in the store"));
    fixtures::flip_bit(scene.image("manifest.json"), 5);
    CHECK(scene.command() == 1);
    CHECK_THAT(scene.verify().problems.at(0), Contains("tag ") && Contains("/a:1: its image"));
}

TEST_CASE("a seal is of its file alone", "[pull]") {
    fixtures::TempFolder folder;
    Fd file = folder.create("layer");
    CHECK(pull::seal_of(file.get(), "layer") == pull::Seal::broken);
    sys::write_all(file.get(), std::string(3'000'000, 'x'), "layer");
    CHECK(pull::seal_of(file.get(), "layer") == pull::Seal::broken);
    auto hash = [](size_t size) { return squash::format::bulk_hash(std::string(size, 'x')); };
    pull::seal_layer(
        file.get(), {{100, 500'000, hash(500'000)}, {600'000, 7, hash(7)}, {600'007, 1 << 20, hash(1 << 20)}}, "layer");
    CHECK(pull::seal_of(file.get(), "layer") == pull::Seal::good);
    uint64_t size = fs::file_size(folder / "layer");
    CHECK(size == 3'000'000 + 3 * 24 + 128);
    // Before, in and between the blocks, behind them, in their sums and in the line.
    for (uint64_t at : {uint64_t{0}, uint64_t{99}, uint64_t{100}, uint64_t{500'099}, uint64_t{500'100},
                        uint64_t{600'003}, uint64_t{1'600'000}, uint64_t{2'999'999}, uint64_t{3'000'000},
                        uint64_t{3'000'070}, size - 128, size - 100, size - 1}) {
        CAPTURE(at);
        fixtures::flip_bit(folder / "layer", at);
        CHECK(pull::seal_of(file.get(), "layer") == pull::Seal::broken);
        fixtures::flip_bit(folder / "layer", at);
        CHECK(pull::seal_of(file.get(), "layer") == pull::Seal::good);
    }
    REQUIRE(::ftruncate(file.get(), static_cast<off_t>(size - 1)) == 0);
    CHECK(pull::seal_of(file.get(), "layer") == pull::Seal::broken);
}

TEST_CASE("a layer that a newer release has sealed is kept, and said not to be checked", "[pull][release]") {
    Scene scene;
    std::string seal = "berth-seal 4 anything";
    seal.resize(127, ' ');
    ::chmod(scene.layer(0).c_str(), 0600);
    std::ofstream(scene.layer(0), std::ios::app) << seal << '\n';
    scene.server.reset();
    pull::Verified verified = scene.verify();
    CHECK(verified.problems.empty());
    CHECK(verified.layers == 1);
    REQUIRE(verified.unchecked.size() == 1);
    CHECK_THAT(verified.unchecked[0], Contains("not checked, a newer release of berth has sealed it"));
    CHECK(fs::exists(scene.layer(0)));
    CHECK(scene.command("--repair") == 0);
    // It is a squashfs file all the same.
    CHECK(pull::is_complete(scene.store, Digest(scene.digest)));
}

TEST_CASE("a pull applies the limits of the site, and keeps what it brought", "[pull]") {
    Scene scene;
    std::string other =
        fixtures::serve_image(scene.content, {ServedLayer(TarBuilder().file("other", "o").finished())}, "other");
    timespec old[2] = {{1000, 0}, {1000, 0}};
    for (const std::string& path :
         {scene.image("manifest.json"), cat(scene.store.path(), "/leases/", scene.digest.substr(7))})
        REQUIRE(::utimensat(AT_FDCWD, path.c_str(), old, 0) == 0);
    pull::Options options;
    options.keep.bytes = 1;
    pull::pull(scene.store, plan::parse_reference(scene.server->host() + "/a@" + other), options,
               [](const std::string&) {});
    CHECK(pull::is_complete(scene.store, Digest(other)));
    CHECK_FALSE(scene.store.has_image(Digest(scene.digest)));
    CHECK_FALSE(fs::exists(scene.layer(0)));
    scene.pull(options);
    CHECK(pull::is_complete(scene.store, Digest(scene.digest)));
}
