// The nodes of a step that start an image early bring its chunks together.
#include <filesystem>
#include <future>
#include <set>

#include "runtime/pull/nodes/policy/chunk_owners.hh"
#include "tests/unit/early_scene.hh"
#include "tests/unit/pull_tracker_process.hh"

using namespace berth;
using namespace berth::fixtures;
using namespace berth::pull::nodes;
using Catch::Contains;
using std::chrono::milliseconds;

namespace {

/// A node of a step, with a store of its own.
struct ExchangeNode {
    EarlyScene& scene;
    pull::MeetingPlace place;
    pull::Meter meter{"x"};
    std::atomic<bool> stop = false;

    ExchangeNode(EarlyScene& its_scene, const pull::TrackerProcess& tracker, unsigned rank)
        : scene(its_scene), place(tracker.place(cat("n", rank), rank)) {}

    store::Store open() const { return store::Store::open(scene.folder / place.node); }
    pull::Options options() {
        pull::Options out = scene.early_options();
        out.share = place;
        out.registry.stop = &stop;
        return out;
    }
    std::optional<Digest> start() {
        pull::Afterwards out;
        pull::pull(open(), scene.reference(), options(), meter, out);
        return out.early;
    }
    pull::Completed complete() {
        return pull::complete_early(open(), scene.reference(), Digest(scene.digest), options(), meter);
    }
    /// Until everybody has everything. Returns the layers that this node has proved.
    size_t complete_and_prove() {
        pull::Completed completed = complete();
        size_t proved = 0;
        pull::prove_together(open(), completed, [&](const pull::Unproved& unproved) {
            proved += unproved.layers.size();
            // No assertion of Catch, which has them from one thread alone.
            if (!pull::prove(open(), unproved).empty()) throw Error("a layer is not proved");
        });
        return proved;
    }
    std::shared_ptr<const store::Partial> partial() const {
        auto out = store::find_partial(open(), Digest(scene.digest), store::Access::write);
        REQUIRE(out);
        return std::make_shared<const store::Partial>(std::move(*out));
    }
    /// The chunk comes from the registry, so to say.
    void bring(const store::Partial& to, uint32_t chunk) const {
        for (size_t i = 0; i < to.layers.size(); ++i) {
            const store::PartialLayer& layer = to.layers[i];
            if (chunk < layer.first || chunk >= layer.first + layer.chunks()) continue;
            std::string bytes = scene.chunk(layer, chunk);
            off_t at = static_cast<off_t>((chunk - layer.first) * ChunkMap::chunk_size);
            REQUIRE(::pwrite(layer.file.get(), bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size()));
        }
        to.map->set_here(chunk);
    }
};

/// Published with a profile, so that both nodes of two have something to bring.
struct ExchangeScene : EarlyScene {
    static constexpr uint32_t count = 10;  ///< chunks
    static std::vector<uint32_t> profile() { return {1, 0, 2, 3, 4, 7, 8}; }

    ExchangeScene() {
        oci::Artifact artifact = early_artifact();
        artifact.profile = blob(oci::profile_type, store::format_profile(profile()));
        publish_signed(artifact);
    }
    size_t blobs() const { return server->count("GET /v2/a/b/blobs/"); }
    size_t manifests() const { return server->count("GET /v2/a/b/manifests/"); }
};

/// What several threads return, in their order.
template <typename Work>
auto together(std::vector<std::unique_ptr<ExchangeNode>>& nodes, const Work& work) {
    std::vector<std::future<decltype(work(*nodes[0]))>> running;
    for (auto& node : nodes) running.push_back(std::async(std::launch::async, [&] { return work(*node); }));
    std::vector<decltype(work(*nodes[0]))> out;
    for (auto& one : running) out.push_back(one.get());
    return out;
}

std::vector<std::unique_ptr<ExchangeNode>> nodes_of(EarlyScene& scene, const pull::TrackerProcess& tracker,
                                                    unsigned count) {
    std::vector<std::unique_ptr<ExchangeNode>> out;
    for (unsigned i = 0; i < count; ++i) out.push_back(std::make_unique<ExchangeNode>(scene, tracker, i));
    return out;
}

}  // namespace

TEST_CASE("exchange: the nodes of a step ask the registry once for everything", "[pull][exchange]") {
    ExchangeScene scene;
    pull::TrackerProcess tracker(3);
    auto nodes = nodes_of(scene, tracker, 3);
    size_t manifests = scene.manifests(), blobs = scene.blobs();
    std::vector<std::optional<Digest>> started = together(nodes, [](ExchangeNode& node) { return node.start(); });
    for (const auto& one : started) CHECK(one == Digest(scene.digest));
    // The image's and its signature, the artifact's and its; and config, payloads, index, sums and profile.
    CHECK(scene.manifests() - manifests == 4);
    CHECK(scene.blobs() - blobs == 6);
    Reading reading(nodes[2]->open(), Digest(scene.digest));
    std::string b;
    std::jthread reader([&] { b = reading.read("b", 2 << 20, 1000); });
    reading.wait_for_wishes(1);
    size_t remainders = scene.remainders_fetched();
    std::vector<size_t> proved = together(nodes, [](ExchangeNode& node) { return node.complete_and_prove(); });
    reader.join();
    CHECK(b == second_file.substr(2 << 20, 1000));
    size_t size = scene.halves[0].squashfs.size() + scene.halves[1].squashfs.size(), from_registry = 0;
    for (auto& node : nodes) {
        CHECK(node->meter.fetched() == size);
        from_registry += node->meter.fetched() - node->meter.from_peers();
        CHECK(node->open().unproved().empty());
        Reading whole(node->open(), Digest(scene.digest));
        CHECK((whole.read("a") == first_file && whole.read("b") == second_file));
    }
    CHECK(from_registry == size);
    CHECK(proved == std::vector<size_t>{1, 1, 0});
    CHECK(scene.remainders_fetched() - remainders == 2);
}

TEST_CASE("exchange: what a node that has gone was to bring comes from the registry", "[pull][exchange]") {
    ExchangeScene scene;
    pull::TrackerProcess tracker(3);
    auto nodes = nodes_of(scene, tracker, 3);
    together(nodes, [](ExchangeNode& node) { return node.start(); });
    // It brings nothing, and ends when the others have begun.
    std::atomic<bool> held = true;
    scene.fault = [&](const test::HttpCall&) -> std::optional<test::HttpReply> {
        for (int tries = 0; held && tries < 20'000; ++tries) std::this_thread::sleep_for(milliseconds(1));
        return std::nullopt;
    };
    auto gone = std::async(std::launch::async, [&] {
        try {
            nodes[0]->complete();
            return false;
        } catch (const Error&) {
            return true;
        }
    });
    std::vector<std::future<size_t>> others;
    for (size_t i : {1, 2})
        others.push_back(std::async(std::launch::async, [&, i] { return nodes[i]->complete_and_prove(); }));
    std::this_thread::sleep_for(milliseconds(500));
    nodes[0]->stop = true;
    held = false;
    CHECK(gone.get());
    for (auto& one : others) one.get();
    for (size_t i : {1, 2}) {
        Reading whole(nodes[i]->open(), Digest(scene.digest));
        CHECK((whole.read("a") == first_file && whole.read("b") == second_file));
        CHECK(nodes[i]->open().unproved().empty());
    }
}

TEST_CASE("exchange: wrong bytes of another node are never read", "[pull][exchange]") {
    ExchangeScene scene;
    pull::TrackerProcess tracker(2);
    auto nodes = nodes_of(scene, tracker, 2);
    together(nodes, [](ExchangeNode& node) { return node.start(); });
    std::shared_ptr<const store::Partial> wrong = nodes[0]->partial();
    for (const store::PartialLayer& layer : wrong->layers) {
        std::string bytes(layer.size, 'x');
        REQUIRE(::pwrite(layer.file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    }
    for (uint32_t chunk = 0; chunk < ExchangeScene::count; ++chunk) wrong->map->set_here(chunk);
    auto liar = std::async(std::launch::async, [&] {
        return std::make_unique<LazyExchange>(
            NodeSettings{.place = nodes[0]->place, .image = Digest(scene.digest)}, wrong,
            ExchangeScene::profile());
    });
    Reading reading(nodes[1]->open(), Digest(scene.digest));
    std::string a;
    std::jthread reader([&] { a = reading.read("a"); });
    reading.wait_for_wishes(1);
    pull::Completed completed = nodes[1]->complete();
    reader.join();
    CHECK((a == first_file && reading.read("b") == second_file));
    CHECK(completed.exchange);
    CHECK(nodes[1]->meter.from_peers() == 0);
    CHECK(liar.get()->sent() > 0);
}

TEST_CASE("exchange: chunks go from node to node as they come, and those that somebody waits for at once",
          "[pull][exchange]") {
    ExchangeScene scene;
    pull::TrackerProcess tracker(2);
    auto nodes = nodes_of(scene, tracker, 2);
    together(nodes, [](ExchangeNode& node) { return node.start(); });
    std::vector<std::shared_ptr<const store::Partial>> partials{nodes[0]->partial(), nodes[1]->partial()};
    REQUIRE(partials[0]->map->count() == ExchangeScene::count);
    std::mutex mutex;
    std::vector<std::string> notices;
    auto exchanges = together(nodes, [&](ExchangeNode& node) {
        unsigned rank = node.place.rank;
        return std::make_unique<LazyExchange>(
            NodeSettings{.place = node.place,
                             .image = Digest(scene.digest),
                             .notice =
                                 [&](const std::string& line) {
                                     std::lock_guard lock(mutex);
                                     notices.push_back(line);
                                 }},
            partials[rank], ExchangeScene::profile());
    });
    CHECK(exchanges[1]->nodes() == 2);
    CHECK(exchanges[1]->neighbours() == std::vector<unsigned>{0});
    ChunkOwners owners(2, {partials[0]->layers[0].chunks(), ExchangeScene::count}, ExchangeScene::profile());
    std::vector<uint32_t> of_first;
    for (uint32_t chunk = 0; chunk < ExchangeScene::count; ++chunk)
        if (owners.owner(chunk) == 0) of_first.push_back(chunk);
    REQUIRE(of_first.size() >= 3);
    CHECK(exchanges[1]->source(of_first[0]) == 0);

    SECTION("of their own accord") {
        nodes[0]->bring(*partials[0], of_first[1]);
        std::atomic<size_t> came = 0, wrong = 0;
        std::jthread listener([&] {
            ChunkClient client;
            exchanges[1]->take_all(
                client, 0,
                [&](uint32_t chunk, std::string_view bytes) {
                    if (bytes != scene.chunk(partials[0]->layers[chunk < 6 ? 0 : 1], chunk)) ++wrong;
                    partials[1]->map->set_here(chunk);
                    ++came;
                },
                [] { return false; });
        });
        for (int tries = 0; tries < 20'000 && came < 1; ++tries) std::this_thread::sleep_for(milliseconds(1));
        CHECK(came == 1);
        CHECK(partials[0]->map->wanted().empty());
        for (uint32_t chunk : of_first) nodes[0]->bring(*partials[0], chunk);
        listener.join();
        CHECK(came == of_first.size());
        CHECK(wrong == 0);
        CHECK(exchanges[1]->source(of_first[0]) == 0);
    }
    SECTION("what has come of one goes on before the rest of it, and anew when it was wrong") {
        uint32_t chunk = of_first[0];
        std::string bytes = scene.chunk(partials[0]->layers[chunk < 6 ? 0 : 1], chunk);
        REQUIRE(bytes.size() == ChunkMap::chunk_size);
        std::atomic<bool> is_over = false;
        std::vector<std::string> came;
        std::jthread listener([&] {
            ChunkClient client;
            exchanges[1]->take_all(
                client, 0, [&](uint32_t, std::string_view whole) { came.emplace_back(whole), is_over = true; },
                [&] { return is_over.load(); });
        });
        auto sent = [&](uint64_t least) {
            for (int tries = 0; tries < 20'000 && exchanges[0]->sent() < least; ++tries)
                std::this_thread::sleep_for(milliseconds(1));
            return exchanges[0]->sent();
        };
        uint64_t half = ChunkMap::chunk_size / 2;
        bool was_wrong = GENERATE(false, true);
        if (was_wrong) {
            exchanges[0]->add_part(chunk, 0, std::string(ChunkMap::chunk_size, 'x'));
            // Never all of what may be wrong.
            CHECK(sent(ChunkMap::chunk_size - (64 << 10)) < ChunkMap::chunk_size);
            exchanges[0]->settle(chunk, false);
        }
        uint64_t before = exchanges[0]->sent();
        exchanges[0]->add_part(chunk, 0, std::string_view(bytes).substr(0, half));
        CHECK(sent(before + half) < before + half + (64 << 10));
        nodes[0]->bring(*partials[0], chunk);
        exchanges[0]->settle(chunk, true);
        listener.join();
        REQUIRE(came.size() == 1);
        CHECK(came[0] == bytes);
        CHECK(exchanges[1]->source(chunk) == 0);
    }
    SECTION("at once") {
        std::string got;
        bool is_whole = false;
        std::jthread taker([&] {
            ChunkClient client;
            is_whole = exchanges[1]->take(
                client, 0, {of_first[0], 1}, [&](uint32_t, std::string_view bytes) { got = bytes; },
                [] { return false; });
        });
        for (int tries = 0; tries < 20'000 && partials[0]->map->wanted().empty(); ++tries)
            std::this_thread::sleep_for(milliseconds(1));
        CHECK(partials[0]->map->wanted() == std::vector<uint32_t>{of_first[0]});
        nodes[0]->bring(*partials[0], of_first[0]);
        taker.join();
        CHECK(is_whole);
        CHECK(got == scene.chunk(partials[0]->layers[of_first[0] < 6 ? 0 : 1], of_first[0]));
    }
    SECTION("wrong bytes are not asked for twice") {
        for (uint32_t chunk : of_first) nodes[0]->bring(*partials[0], chunk);
        ChunkClient client;
        exchanges[1]->take_all(
            client, 0, [](uint32_t, std::string_view) { throw Error("other bytes"); }, [] { return false; });
        CHECK(exchanges[1]->source(of_first[0]) == std::nullopt);
        REQUIRE(notices.size() == 1);
        CHECK_THAT(notices[0], Contains("node n0 sends no parts of the image: other bytes"));
    }
    SECTION("a node that has gone is left to the registry") {
        exchanges[0].reset();
        ChunkClient client;
        exchanges[1]->take_all(client, 0, [](uint32_t, std::string_view) {}, [] { return false; });
        CHECK(exchanges[1]->source(of_first[0]) == std::nullopt);
        CHECK_FALSE(exchanges[1]->wait_for_more(0, [] { return false; }));
        CHECK_FALSE(exchanges[1]->take(client, 0, {of_first[0], 1}, [](uint32_t, std::string_view) {},
                                       [] { return false; }));
    }
    SECTION("one that cannot get a chunk says so") {
        std::jthread failing([&] {
            for (int tries = 0; tries < 20'000 && partials[0]->map->wanted().empty(); ++tries)
                std::this_thread::sleep_for(milliseconds(1));
            partials[0]->map->set_failed(of_first[0]);
        });
        ChunkClient client;
        CHECK_FALSE(exchanges[1]->take(client, 0, {of_first[0], 1}, [](uint32_t, std::string_view) {},
                                       [] { return false; }));
        CHECK(exchanges[1]->source(of_first[0]) == std::nullopt);
    }
}

TEST_CASE("exchange: when a node has gone, one of the others brings each of its chunks to all", "[pull][exchange]") {
    ExchangeScene scene;
    pull::TrackerProcess tracker(3);
    auto nodes = nodes_of(scene, tracker, 3);
    together(nodes, [](ExchangeNode& node) { return node.start(); });
    std::vector<std::shared_ptr<const store::Partial>> partials;
    for (auto& node : nodes) partials.push_back(node->partial());
    auto exchanges = together(nodes, [&](ExchangeNode& node) {
        return std::make_unique<LazyExchange>(
            NodeSettings{.place = node.place, .image = Digest(scene.digest)}, partials[node.place.rank],
            ExchangeScene::profile());
    });
    ChunkOwners owners(3, {partials[0]->layers[0].chunks(), ExchangeScene::count}, ExchangeScene::profile());
    auto owned_by = [&](unsigned node) {
        std::vector<uint32_t> out;
        for (uint32_t chunk = 0; chunk < ExchangeScene::count; ++chunk)
            if (owners.owner(chunk) == node) out.push_back(chunk);
        return out;
    };
    std::vector<uint32_t> first = owned_by(2);
    owners.set_gone(0);
    std::vector<uint32_t> later = owned_by(2);
    REQUIRE((!first.empty() && later.size() > first.size()));

    std::atomic<size_t> came = 0;
    std::atomic<bool> is_over = false;
    std::jthread listener([&] {
        ChunkClient client;
        auto take = [&](uint32_t chunk, std::string_view) { partials[1]->map->set_here(chunk), ++came; };
        auto over = [&] { return is_over.load(); };
        do exchanges[1]->take_all(client, 2, take, over);
        while (exchanges[1]->wait_for_more(2, over));
    });
    auto wait_for = [](auto holds) {
        for (int tries = 0; tries < 20'000 && !holds(); ++tries) std::this_thread::sleep_for(milliseconds(1));
        return holds();
    };
    // The second time, what the node has from the beginning is all there by then.
    bool is_idle = GENERATE(false, true);
    for (uint32_t chunk : first)
        if (is_idle || chunk != first[0]) nodes[2]->bring(*partials[2], chunk);
    CHECK(wait_for([&] { return came == first.size() - (is_idle ? 0 : 1); }));
    exchanges[0].reset();
    CHECK(wait_for([&] { return exchanges[1]->source(later.back()) == 2 && exchanges[1]->source(later[0]) == 2; }));
    CHECK(exchanges[1]->neighbours() == std::vector<unsigned>{2});
    for (uint32_t chunk : later) {
        CHECK(exchanges[1]->source(chunk) == 2);
        CHECK(wait_for([&] { return !exchanges[2]->source(chunk); }));
        nodes[2]->bring(*partials[2], chunk);
    }
    CHECK(wait_for([&] { return came == later.size(); }));
    is_over = true;
}

TEST_CASE("exchange: whatever goes wrong in whatever order, what is read is right on all nodes", "[pull][exchange]") {
    ExchangeScene scene;
    unsigned schedules = schedules_wanted(4);
    ReadCounts counts;
    std::atomic<size_t> stopped = 0;
    for (unsigned schedule = 0; schedule < schedules; ++schedule) {
        INFO("schedule " << schedule);
        Chance chance(schedule);
        pull::TrackerProcess tracker(3);
        scene.fault = {};
        auto nodes = nodes_of(scene, tracker, 3);
        for (const auto& one : together(nodes, [](ExchangeNode& node) { return node.start(); })) REQUIRE(one);
        std::vector<std::unique_ptr<Reading>> readings;
        for (auto& node : nodes) readings.push_back(std::make_unique<Reading>(node->open(), Digest(scene.digest)));
        std::atomic<unsigned> faults = chance.below(8);
        add_faults(scene, chance, faults);
        std::vector<bool> right = together(nodes, [&](ExchangeNode& node) {
            Reading& reading = *readings[node.place.rank];
            std::atomic<bool> over = false;
            {
                std::jthread reader([&] { read_by_chance(reading, chance, over, counts); });
                for (bool done = false; !done;) {
                    std::atomic<bool> ended = false;
                    node.stop = false;
                    std::jthread killer([&] { stop_by_chance(chance, node.stop, ended); });
                    try {
                        node.complete_and_prove();
                        done = true;
                    } catch (const Error&) {
                        ++stopped;
                    }
                    ended = true;
                }
                over = true;
            }
            return reading.read("a") == first_file && reading.read("b") == second_file &&
                   reading.read("c") == small_file;
        });
        CHECK(right == std::vector<bool>(3, true));
        REQUIRE(counts.wrong == 0);
        for (auto& node : nodes) std::filesystem::remove_all(scene.folder / node->place.node);
    }
    std::string line =
        cat(counts.right.load(), " right, ", counts.errors.load(), " errors, ", counts.interrupted.load(),
            " interrupted, ", stopped.load(), " stopped");
    INFO(line);
    CHECK(counts.right > schedules);
    if (schedules > 4) WARN(line);
}
