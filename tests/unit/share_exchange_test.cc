// Which node of a step brings which piece of an image that starts early, and what the nodes know of one another.
#include <cmath>
#include <set>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/share/gathering.hh"
#include "runtime/pull/share/partial_chunks.hh"
#include "runtime/pull/share/piece_owners.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::pull::share;
using Catch::Contains;
using std::chrono::milliseconds;

namespace {

/// The messages as "CONNECTION:WORDS", without those of the roster's peers but their names.
std::string told(const std::vector<Outgoing>& messages) {
    std::string out;
    for (const Outgoing& message : messages) {
        out += cat(out.empty() ? "" : "; ", message.to, ":");
        if (const auto* roster = std::get_if<Plan>(&message.message)) {
            out += cat("roster ", roster->own ? std::to_string(*roster->own) : "-");
            for (const Peer& peer : roster->peers) out += cat(" ", peer.node);
        } else {
            out += words_of(message.message);
        }
    }
    return out;
}

}  // namespace

TEST_CASE("exchange: every piece has an owner, to whom all who ask lead within two steps", "[pull][exchange]") {
    std::vector<uint32_t> ends{1000, 1001, 3000}, profile;
    for (uint32_t piece = 0; piece < 3000; piece += 7) profile.push_back(2999 - piece);
    for (unsigned nodes : {1U, 2U, 3U, 16U, 17U, 23U, 64U, 100U, 1000U}) {
        INFO(nodes);
        PieceOwners owners(nodes, ends, profile);
        std::vector<unsigned> owned(nodes);
        for (uint32_t piece = 0; piece < 3000; ++piece) {
            unsigned owner = owners.owner(piece);
            REQUIRE(owner < nodes);
            ++owned[owner];
            REQUIRE(owners.source(piece, owner) == owner);
            REQUIRE(owners.source(piece, std::nullopt) == owner);
        }
        size_t most = 0;
        for (unsigned node = 0; node < nodes; node += 1 + nodes / 40) {
            std::vector<unsigned> sources = owners.sources(node);
            most = std::max(most, sources.size());
            for (uint32_t piece = 0; piece < 3000; piece += 3) {
                unsigned source = owners.source(piece, node);
                bool asks_registry = source == node;
                REQUIRE(asks_registry == (owners.owner(piece) == node));
                if (asks_registry) continue;
                REQUIRE(std::ranges::count(sources, source) == 1);
                // Whom it asks has it from its owner.
                unsigned next = owners.source(piece, source);
                REQUIRE((next == source || next == owners.owner(piece)));
            }
        }
        CHECK(most <= (nodes <= PieceOwners::row_limit ? nodes - 1 : 2 * std::sqrt(nodes) + 2));
        if (nodes <= 64) CHECK(*std::ranges::min_element(owned) > 0);
    }
    // The first pieces of a profile have several owners.
    PieceOwners owners(4, {100}, {40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 9});
    CHECK(owners.owner(40) == owners.owner(43));
    CHECK(owners.owner(44) != owners.owner(43));
    CHECK(owners.owner(9) != owners.owner(55));
    // Nobody has much more than the others.
    for (unsigned nodes : {2U, 5U, 16U, 40U}) {
        PieceOwners even(nodes, {2000}, {});
        std::vector<unsigned> counts(nodes);
        for (uint32_t piece = 0; piece < 2000; ++piece) ++counts[even.owner(piece)];
        CHECK(*std::ranges::max_element(counts) <= 2000 / nodes + PieceOwners::pieces_a_run / 2 + 1);
    }
}

TEST_CASE("exchange: when nodes have gone, the others ask owners that are there, in two steps", "[pull][exchange]") {
    std::vector<uint32_t> ends{1000, 3000}, profile{5, 6, 7, 2000, 2001};
    for (unsigned nodes : {2U, 4U, 12U, 17U, 64U}) {
        PieceOwners owners(nodes, ends, profile), backwards = owners;
        const PieceOwners before = owners;
        // Some, all of a row, and all of a column.
        unsigned columns = nodes <= PieceOwners::row_limit ? nodes : static_cast<unsigned>(std::ceil(std::sqrt(nodes)));
        std::set<unsigned> gone{nodes - 1};
        if (nodes >= 12) gone.insert({0, 1, columns + 1});
        if (nodes == 64)
            for (unsigned i = 0; i < 8; ++i) gone.insert({i * 8 + 3, 40 + i});
        for (unsigned node : gone) owners.set_gone(node);
        for (auto node = gone.rbegin(); node != gone.rend(); ++node) backwards.set_gone(*node);
        for (uint32_t piece = 0; piece < 3000; ++piece) {
            INFO(nodes << " nodes, piece " << piece);
            unsigned owner = owners.owner(piece);
            REQUIRE(!gone.contains(owner));
            REQUIRE(backwards.owner(piece) == owner);
            if (!gone.contains(before.owner(piece))) REQUIRE(owner == before.owner(piece));
            for (unsigned node = 0; node < nodes; ++node) {
                if (gone.contains(node)) continue;
                unsigned source = owners.source(piece, node);
                REQUIRE(!gone.contains(source));
                REQUIRE((source == node) == (owner == node));
                if (source != node && source != owner) {
                    REQUIRE(owners.source(piece, source) == owner);
                    REQUIRE(owners.is_passed_on(piece, source));
                }
            }
        }
    }
    // What the one that has gone had is spread over those that are left.
    PieceOwners owners(3, {300}, {});
    std::set<unsigned> heirs;
    PieceOwners before = owners;
    owners.set_gone(1);
    for (uint32_t piece = 0; piece < 300; ++piece)
        if (before.owner(piece) == 1) heirs.insert(owners.owner(piece));
    CHECK(heirs == std::set<unsigned>{0, 2});
}

TEST_CASE("exchange: parts of a piece go on where they are farther, and are of one beginning", "[pull][exchange]") {
    PartialChunks pieces;
    pieces.add(7, 5, "nothing before it");
    CHECK(pieces.all().empty());
    pieces.add(7, 0, "abc");
    pieces.add(7, 1, "bcd");
    pieces.add(7, 0, "ab");
    pieces.add(7, 5, "fg");
    pieces.add(3, 0, "x");
    REQUIRE(pieces.all().size() == 2);
    CHECK((pieces.all()[1].chunk == 7 && pieces.all()[1].size == 4));
    CHECK(pieces.bytes(7, 0, 1, 2) == "bc");
    CHECK(pieces.bytes(7, 0, 4, 1).empty());
    pieces.set_wrong(7);
    CHECK(pieces.beginning(7) == 1);
    pieces.add(7, 0, "ABCDE");
    CHECK(pieces.bytes(7, 0, 0, 9).empty());
    CHECK(pieces.bytes(7, 1, 0, 9) == "ABCDE");
    pieces.set_whole(7);
    CHECK(pieces.bytes(7, 1, 0, 9).empty());
    for (uint32_t piece = 100; piece < 300; ++piece) pieces.add(piece, 0, "x");
    CHECK(pieces.all().size() == PartialChunks::limit);
}

TEST_CASE("exchange: who takes part is told when all have come, or some time after", "[pull][exchange]") {
    Gathering gathering;
    Gathering::Time now{};
    Digest image = oci::sha256_of("image");
    std::vector<Outgoing> out;
    auto hello = [&](unsigned rank, uint64_t its_release) {
        return Hello{{cat("n", rank), "192.0.2.1", 1, "k"}, rank, image, its_release, 0, true};
    };
    auto enter = [&](Connection from, unsigned rank, Gathering::Step step) {
        out.clear();
        gathering.take(from, hello(rank, release), now, step, out);
        return told(out);
    };
    auto tick = [&](Gathering::Step step) {
        out.clear();
        gathering.tick(now, step, out);
        return told(out);
    };
    CHECK(enter(10, 1, {3, 0}).empty());
    CHECK(enter(11, 2, {3, 0}).empty());
    SECTION("all") {
        CHECK(enter(12, 0, {3, 0}) == "12:roster 0 n0 n1 n2; 10:roster 1 n0 n1 n2; 11:roster 2 n0 n1 n2");
    }
    SECTION("one that does not come") {
        now += milliseconds(200);
        CHECK(tick({3, 1}).empty());
        now += milliseconds(200);
        CHECK(tick({3, 1}) == "10:roster 0 n1 n2; 11:roster 1 n1 n2");
        // And comes later.
        CHECK(enter(12, 0, {3, 0}) == "12:roster - n1 n2");
        out.clear();
        gathering.lost(12, now, {3, 0}, out);
        CHECK(out.empty());
        gathering.lost(11, now, {3, 0}, out);
        CHECK(told(out) == "10:gone 1");
        CHECK(enter(14, 0, {3, 0}) == "14:roster - n1 n2; 14:gone 1");
    }
    SECTION("one that has gone before") {
        out.clear();
        gathering.lost(10, now, {3, 0}, out);
        CHECK(enter(12, 0, {3, 0}).empty());
        now += milliseconds(400);
        CHECK(tick({3, 0}) == "12:roster 0 n0 n2; 11:roster 1 n0 n2");
    }
    SECTION("another release") {
        out.clear();
        gathering.take(20, hello(9, release + 1), now, {3, 0}, out);
        CHECK_THAT(told(out), Contains("20:alone"));
    }
    SECTION("nobody goes before everybody has everything, and who has gone is not waited for") {
        enter(12, 0, {3, 0});
        out.clear();
        gathering.take(10, Done{3}, now, {3, 0}, out);
        CHECK(told(out) == "12:done 3; 11:done 3");
        CHECK(enter(13, 5, {4, 0}) == "13:roster - n0 n1 n2; 13:done 3");
        out.clear();
        for (Connection from : {10, 11, 13}) gathering.take(from, Finished{}, now, {4, 0}, out);
        CHECK(out.empty());
        gathering.lost(12, now, {4, 0}, out);
        CHECK(told(out) == "10:gone 0; 11:gone 0; 13:gone 0; 10:finished; 11:finished; 13:finished");
        CHECK(gathering.is_empty());
        // Who comes now has nobody to ask.
        CHECK(enter(14, 6, {5, 0}).empty());
        now += milliseconds(400);
        CHECK(tick({5, 0}) == "14:roster 0 n6");
    }
}

TEST_CASE("exchange: a node with a number that none has is told the owners, and reads nothing else",
          "[pull][exchange]") {
    for (unsigned nodes : {1U, 3U, 17U, 64U}) {
        PieceOwners owners(nodes, {100}, {3});
        for (unsigned node : {nodes, nodes + 1, 2 * nodes, 4'000'000'000U, ~0U})
            for (uint32_t piece = 0; piece < 100; ++piece)
                REQUIRE(owners.source(piece, node) == owners.owner(piece));
    }
}
