#include <unistd.h>

#include <random>
#include <set>
#include <thread>

#include "runtime/base/sys.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/share/pieces.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::pull::share;
using fixtures::TempFolder;
using std::chrono::milliseconds;

namespace {

Digest any_digest() { return oci::sha256_of("a layer"); }

}  // namespace

TEST_CASE("each piece of a file has one place in one stripe, piece 0 the last", "[share]") {
    for (uint32_t pieces = 1; pieces < 40; ++pieces) {
        CAPTURE(pieces);
        std::set<uint32_t> seen;
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
            for (uint32_t place = 0; auto index = piece_at(stripe, place, pieces); ++place) {
                CHECK(seen.insert(*index).second);
                CHECK(*index % stripe_count == stripe);
                if (*index == 0) CHECK_FALSE(piece_at(stripe, place + 1, pieces));
                // Without the size the places are the same, but for that of piece 0.
                if (*index != 0) CHECK(piece_at(stripe, place) == *index);
            }
        CHECK(seen.size() == pieces);
    }
}

TEST_CASE("the head of a piece is read as it was written, and nothing else is one", "[share]") {
    PieceHead head{7, 1234, sum_of_piece("bytes"), 5};
    auto bytes = encode(head);
    auto read = parse_piece_head({bytes.data(), bytes.size()});
    REQUIRE(read);
    CHECK(read->index == 7);
    CHECK(read->size == 1234);
    CHECK(read->sum == head.sum);
    CHECK_FALSE(parse_piece_head({bytes.data(), bytes.size() - 1}));
    for (PieceHead bad : {PieceHead{7, 0}, PieceHead{7, piece_size + 1}, PieceHead{PieceHead::waiting, 5},
                          PieceHead{PieceHead::complete, 1}}) {
        auto encoded = encode(bad);
        CHECK_FALSE(parse_piece_head({encoded.data(), encoded.size()}));
    }
    auto waiting = encode({PieceHead::waiting});
    CHECK(parse_piece_head({waiting.data(), waiting.size()})->index == PieceHead::waiting);
}

TEST_CASE("a pump makes pieces as a file grows, and piece 0 when it is whole", "[share]") {
    TempFolder folder;
    uint64_t size = GENERATE(uint64_t{100}, uint64_t{piece_size}, uint64_t{piece_size} + 1, uint64_t{5'400'000});
    std::string content = squash::test::noise(size, 5);
    Fd file = folder.create("layer");
    GrowingLayer layer(any_digest());
    PiecePump pump(layer, descriptor_of(file.get(), "layer"), "layer");
    sys::write_all(file.get(), content, "layer");
    pump.note(size);
    if (pieces_in(size) > 2) CHECK(layer.wait_for(1, 0, std::chrono::seconds(30)).index == 1);
    CHECK(layer.wait_for(0, pieces_in(size) / 2 + 1, milliseconds(1)).index == PieceHead::waiting);
    CHECK_FALSE(layer.sealed());
    pump.finish();
    REQUIRE(layer.sealed());
    CHECK(layer.sealed()->size == size);
    std::string got(size, 0);
    for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
        for (uint32_t place = 0;; ++place) {
            PieceHead head = layer.wait_for(stripe, place, milliseconds(0));
            if (head.index == PieceHead::complete) break;
            REQUIRE(head.index < pieces_in(size));
            std::string bytes(head.size, 0);
            REQUIRE(layer.read(head, 0, bytes.data(), bytes.size()) == head.size);
            CHECK(sum_of_piece(bytes) == head.sum);
            got.replace(uint64_t{head.index} * piece_size, head.size, bytes);
        }
    CHECK((got == content));
    CHECK(layer.has_stripe(0));
    CHECK(layer.has_stripe(1));
}

TEST_CASE("who waits for a layer whose pump ends early is told", "[share]") {
    TempFolder folder;
    Fd file = folder.create("layer");
    GrowingLayer layer(any_digest());
    auto pump = std::make_unique<PiecePump>(layer, descriptor_of(file.get(), "layer"), "layer");
    std::thread reader([&] { CHECK(layer.wait_for(0, 0, std::chrono::seconds(30)).index == PieceHead::gone); });
    pump.reset();
    reader.join();
}
