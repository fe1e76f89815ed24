// Which node of a step brings which chunk of an image that starts early, and what the nodes know of one another.
#include <cmath>
#include <set>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/chunks/partial_chunks.hh"
#include "runtime/pull/nodes/policy/chunk_owners.hh"
#include "runtime/pull/nodes/tracker/tracker.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::pull::nodes;
using Catch::Contains;
using std::chrono::milliseconds;

namespace {

/// The messages to nodes that start lazily as "CONNECTION:WORDS", of a plan's peers their names alone, by message.
std::string told(const std::vector<Outgoing>& messages) {
    std::string out;
    for (const Outgoing& message : messages) {
        if (message.to >= 100) continue;
        out += cat(out.empty() ? "" : "; ", message.to, ":");
        if (const auto* plan = std::get_if<Plan>(&message.message)) {
            out += cat("plan ", plan->own ? std::to_string(*plan->own) : "-");
            for (const Peer& peer : plan->peers) out += cat(" ", peer.node);
        } else {
            out += words_of(message.message);
        }
    }
    return out;
}

}  // namespace

TEST_CASE("exchange: every chunk has an owner, to whom all who ask lead within two steps", "[pull][exchange]") {
    std::vector<uint32_t> ends{1000, 1001, 3000}, profile;
    for (uint32_t chunk = 0; chunk < 3000; chunk += 7) profile.push_back(2999 - chunk);
    for (unsigned nodes : {1U, 2U, 3U, 16U, 17U, 23U, 64U, 100U, 1000U}) {
        INFO(nodes);
        ChunkOwners owners(nodes, ends, profile);
        std::vector<unsigned> owned(nodes);
        for (uint32_t chunk = 0; chunk < 3000; ++chunk) {
            unsigned owner = owners.owner(chunk);
            REQUIRE(owner < nodes);
            ++owned[owner];
            REQUIRE(owners.source(chunk, owner) == owner);
            REQUIRE(owners.source(chunk, std::nullopt) == owner);
        }
        size_t most = 0;
        for (unsigned node = 0; node < nodes; node += 1 + nodes / 40) {
            std::vector<unsigned> sources = owners.sources(node);
            most = std::max(most, sources.size());
            for (uint32_t chunk = 0; chunk < 3000; chunk += 3) {
                unsigned source = owners.source(chunk, node);
                bool asks_registry = source == node;
                REQUIRE(asks_registry == (owners.owner(chunk) == node));
                if (asks_registry) continue;
                REQUIRE(std::ranges::count(sources, source) == 1);
                // Whom it asks has it from its owner.
                unsigned next = owners.source(chunk, source);
                REQUIRE((next == source || next == owners.owner(chunk)));
            }
        }
        CHECK(most <= (nodes <= ChunkOwners::row_limit ? nodes - 1 : 2 * std::sqrt(nodes) + 2));
        if (nodes <= 64) CHECK(*std::ranges::min_element(owned) > 0);
    }
    // The first chunks of a profile have several owners.
    ChunkOwners owners(4, {100}, {40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 9});
    CHECK(owners.owner(40) == owners.owner(43));
    CHECK(owners.owner(44) != owners.owner(43));
    CHECK(owners.owner(9) != owners.owner(55));
    // Nobody has much more than the others.
    for (unsigned nodes : {2U, 5U, 16U, 40U}) {
        ChunkOwners even(nodes, {2000}, {});
        std::vector<unsigned> counts(nodes);
        for (uint32_t chunk = 0; chunk < 2000; ++chunk) ++counts[even.owner(chunk)];
        CHECK(*std::ranges::max_element(counts) <= 2000 / nodes + ChunkOwners::chunks_a_run / 2 + 1);
    }
}

TEST_CASE("exchange: when nodes have gone, the others ask owners that are there, in two steps", "[pull][exchange]") {
    std::vector<uint32_t> ends{1000, 3000}, profile{5, 6, 7, 2000, 2001};
    for (unsigned nodes : {2U, 4U, 12U, 17U, 64U}) {
        ChunkOwners owners(nodes, ends, profile), backwards = owners;
        const ChunkOwners before = owners;
        // Some, all of a row, and all of a column.
        unsigned columns = nodes <= ChunkOwners::row_limit ? nodes : static_cast<unsigned>(std::ceil(std::sqrt(nodes)));
        std::set<unsigned> gone{nodes - 1};
        if (nodes >= 12) gone.insert({0, 1, columns + 1});
        if (nodes == 64)
            for (unsigned i = 0; i < 8; ++i) gone.insert({i * 8 + 3, 40 + i});
        for (unsigned node : gone) owners.set_gone(node);
        for (auto node = gone.rbegin(); node != gone.rend(); ++node) backwards.set_gone(*node);
        for (uint32_t chunk = 0; chunk < 3000; ++chunk) {
            INFO(nodes << " nodes, chunk " << chunk);
            unsigned owner = owners.owner(chunk);
            REQUIRE(!gone.contains(owner));
            REQUIRE(backwards.owner(chunk) == owner);
            if (!gone.contains(before.owner(chunk))) REQUIRE(owner == before.owner(chunk));
            for (unsigned node = 0; node < nodes; ++node) {
                if (gone.contains(node)) continue;
                unsigned source = owners.source(chunk, node);
                REQUIRE(!gone.contains(source));
                REQUIRE((source == node) == (owner == node));
                if (source != node && source != owner) {
                    REQUIRE(owners.source(chunk, source) == owner);
                    REQUIRE(owners.is_passed_on(chunk, source));
                }
            }
        }
    }
    // What the one that has gone had is spread over those that are left.
    ChunkOwners owners(3, {300}, {});
    std::set<unsigned> heirs;
    ChunkOwners before = owners;
    owners.set_gone(1);
    for (uint32_t chunk = 0; chunk < 300; ++chunk)
        if (before.owner(chunk) == 1) heirs.insert(owners.owner(chunk));
    CHECK(heirs == std::set<unsigned>{0, 2});
}

TEST_CASE("exchange: parts of a chunk go on where they are farther, and are of one beginning", "[pull][exchange]") {
    PartialChunks chunks;
    chunks.add(7, 5, "nothing before it");
    CHECK(chunks.all().empty());
    chunks.add(7, 0, "abc");
    chunks.add(7, 1, "bcd");
    chunks.add(7, 0, "ab");
    chunks.add(7, 5, "fg");
    chunks.add(3, 0, "x");
    REQUIRE(chunks.all().size() == 2);
    CHECK((chunks.all()[1].chunk == 7 && chunks.all()[1].size == 4));
    CHECK(chunks.bytes(7, 0, 1, 2) == "bc");
    CHECK(chunks.bytes(7, 0, 4, 1).empty());
    chunks.set_wrong(7);
    CHECK(chunks.beginning(7) == 1);
    chunks.add(7, 0, "ABCDE");
    CHECK(chunks.bytes(7, 0, 0, 9).empty());
    CHECK(chunks.bytes(7, 1, 0, 9) == "ABCDE");
    chunks.set_whole(7);
    CHECK(chunks.bytes(7, 1, 0, 9).empty());
    for (uint32_t chunk = 100; chunk < 300; ++chunk) chunks.add(chunk, 0, "x");
    CHECK(chunks.all().size() == PartialChunks::limit);
}

TEST_CASE("exchange: who takes part is told when all have come, or some time after", "[pull][exchange]") {
    unsigned nodes = 3;
    Digest image = oci::sha256_of("image");
    Tracker::Time now = Tracker::Time{} + std::chrono::hours(1);
    std::optional<Tracker> tracker;
    auto hello = [&](unsigned rank, uint64_t its_release, bool is_lazy = true) {
        return Hello{{cat("n", rank), "192.0.2.1", 1, "k"}, rank, image, its_release, 0, is_lazy};
    };
    auto take = [&](Connection from, const Message& message) { return told(tracker->take(from, message, now)); };
    auto enter = [&](Connection from, unsigned rank) { return take(from, hello(rank, release)); };
    auto lost = [&](Connection from) { return told(tracker->lost(from, now)); };
    auto tick = [&] { return told(tracker->tick(now)); };
    // All of the step have wanted the image's documents before, but for those that are missing.
    auto begin = [&](unsigned missing) {
        tracker.emplace(nodes);
        for (unsigned rank = 0; rank < nodes - missing; ++rank) take(100 + rank, hello(2 - rank, release, false));
        CHECK(enter(10, 1).empty());
        CHECK(enter(11, 2).empty());
    };
    SECTION("all") {
        begin(0);
        CHECK(enter(12, 0) == "12:plan 0 n0 n1 n2; 10:plan 1 n0 n1 n2; 11:plan 2 n0 n1 n2");
    }
    SECTION("one that does not come") {
        begin(1);
        now += milliseconds(200);
        CHECK(tick().empty());
        now += milliseconds(200);
        CHECK(tick() == "10:plan 0 n1 n2; 11:plan 1 n1 n2");
        // And comes later.
        CHECK(enter(12, 0) == "12:plan - n1 n2");
        CHECK(lost(12).empty());
        CHECK(lost(11) == "10:gone 1");
        CHECK(enter(14, 0) == "14:plan - n1 n2; 14:gone 1");
    }
    SECTION("one that has gone before") {
        begin(0);
        lost(10);
        CHECK(enter(12, 0).empty());
        now += milliseconds(400);
        CHECK(tick() == "12:plan 0 n0 n2; 11:plan 1 n0 n2");
    }
    SECTION("another release") {
        begin(0);
        CHECK_THAT(take(20, hello(9, release + 1)), Contains("20:alone"));
    }
    SECTION("nobody goes before everybody has everything, and who has gone is not waited for") {
        nodes = 4;
        begin(1);
        enter(12, 0);
        now += milliseconds(400);
        tick();
        CHECK(take(10, Done{3}) == "11:done 3; 12:done 3");
        CHECK(enter(13, 5) == "13:plan - n0 n1 n2; 13:done 3");
        for (Connection from : {10, 11, 13}) CHECK(take(from, Finished{}).empty());
        CHECK(lost(12) == "10:gone 0; 11:gone 0; 13:gone 0; 10:finished; 11:finished; 13:finished");
        // Who comes now has nobody to ask.
        CHECK(enter(14, 6).empty());
        now += milliseconds(400);
        CHECK(tick() == "14:plan 0 n6");
    }
}

TEST_CASE("exchange: a node with a number that none has is told the owners, and reads nothing else",
          "[pull][exchange]") {
    for (unsigned nodes : {1U, 3U, 17U, 64U}) {
        ChunkOwners owners(nodes, {100}, {3});
        for (unsigned node : {nodes, nodes + 1, 2 * nodes, 4'000'000'000U, ~0U})
            for (uint32_t chunk = 0; chunk < 100; ++chunk)
                REQUIRE(owners.source(chunk, node) == owners.owner(chunk));
    }
}
