#include <unistd.h>

#include <random>
#include <set>
#include <thread>

#include "runtime/base/chunk_map.hh"
#include "runtime/base/sys.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/chunks/chunk_reader.hh"
#include "runtime/pull/nodes/chunks/growing_layer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::pull::nodes;
using fixtures::TempFolder;
using std::chrono::milliseconds;

namespace {

Digest any_digest() { return oci::sha256_of("a layer"); }

}  // namespace

TEST_CASE("each chunk of a file has one place in one stripe, chunk 0 the last", "[share]") {
    for (uint32_t chunks = 1; chunks < 40; ++chunks) {
        CAPTURE(chunks);
        std::set<uint32_t> seen;
        for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
            for (uint32_t place = 0; auto index = chunk_at(stripe, place, chunks); ++place) {
                CHECK(seen.insert(*index).second);
                CHECK(*index % stripe_count == stripe);
                if (*index == 0) CHECK_FALSE(chunk_at(stripe, place + 1, chunks));
                // Without the size the places are the same, but for that of chunk 0.
                if (*index != 0) CHECK(chunk_at(stripe, place) == *index);
            }
        CHECK(seen.size() == chunks);
    }
}

TEST_CASE("the head of a chunk is read as it was written, and nothing else is one", "[share]") {
    ChunkHead head{7, 1234, 65536, 5, sum_of_chunk("bytes")};
    auto bytes = encode(head);
    // Little-endian, as docs/formats.md has it.
    CHECK(std::string(bytes.data(), 16) == std::string("\x07\0\0\0\xd2\x04\0\0\0\0\x01\0\x05\0\0\0", 16));
    auto read = parse_chunk_head({bytes.data(), bytes.size()});
    REQUIRE(read);
    CHECK(read->index == 7);
    CHECK(read->size == 1234);
    CHECK(read->offset == 65536);
    CHECK(read->ahead == 5);
    CHECK(read->sum == head.sum);
    CHECK_FALSE(parse_chunk_head({bytes.data(), bytes.size() - 1}));
    constexpr auto largest = static_cast<uint32_t>(ChunkMap::chunk_size);
    for (ChunkHead bad : {ChunkHead{7, 0}, ChunkHead{7, largest + 1}, ChunkHead{7, 1, largest},
                          ChunkHead{ChunkHead::waiting, 5}, ChunkHead{ChunkHead::waiting, 0, 1},
                          ChunkHead{ChunkHead::complete, 1}}) {
        auto encoded = encode(bad);
        CHECK_FALSE(parse_chunk_head({encoded.data(), encoded.size()}));
    }
    auto waiting = encode({ChunkHead::waiting});
    CHECK(parse_chunk_head({waiting.data(), waiting.size()})->index == ChunkHead::waiting);
}

TEST_CASE("what is no chunk of a layer, or comes in parts, is not taken", "[share]") {
    auto problem = [](const ChunkHead& head) {
        ChunkReader reader({.size_of = [](const ChunkHead& its) -> std::optional<uint32_t> {
                                if (its.index > 9) return std::nullopt;
                                return 10;
                            },
                            .whole = [](const ChunkHead&, std::string_view) {}});
        auto bytes = encode(head);
        bool goes_on = reader.take({bytes.data(), bytes.size()});
        CHECK(goes_on == reader.problem().empty());
        return reader.problem();
    };
    CHECK(problem({9, 10}).empty());
    CHECK(problem({9, 4}).empty());
    for (const ChunkHead& bad : {ChunkHead{10, 1}, ChunkHead{9, 11}, ChunkHead{9, 1, 1}})
        CHECK(problem(bad) == "it sends what is no chunk");
    CHECK(problem({ChunkHead::gone}) == "it cannot get a chunk");
}

TEST_CASE("a pump makes chunks as a file grows, and chunk 0 when it is whole", "[share]") {
    TempFolder folder;
    uint64_t size = GENERATE(uint64_t{100}, uint64_t{chunk_size}, uint64_t{chunk_size} + 1, uint64_t{5'400'000});
    std::string content = squash::test::noise(size, 5);
    Fd file = folder.create("layer");
    GrowingLayer layer(any_digest());
    ChunkPump pump(layer, descriptor_of(file.get(), "layer"), "layer");
    sys::write_all(file.get(), content, "layer");
    pump.note(size);
    if (chunks_in(size) > 2) CHECK(layer.wait_for(1, 0, std::chrono::seconds(30)).index == 1);
    CHECK(layer.wait_for(0, chunks_in(size) / 2 + 1, milliseconds(1)).index == ChunkHead::waiting);
    CHECK_FALSE(layer.sum());
    pump.finish();
    REQUIRE(layer.sum());
    CHECK(layer.sum()->size == size);
    std::string got(size, 0);
    for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
        for (uint32_t place = 0;; ++place) {
            ChunkHead head = layer.wait_for(stripe, place, milliseconds(0));
            if (head.index == ChunkHead::complete) break;
            REQUIRE(head.index < chunks_in(size));
            std::string bytes(head.size, 0);
            REQUIRE(layer.read(head, 0, bytes.data(), bytes.size()) == head.size);
            CHECK(sum_of_chunk(bytes) == head.sum);
            got.replace(uint64_t{head.index} * chunk_size, head.size, bytes);
        }
    CHECK((got == content));
    CHECK(layer.has_stripe(0));
    CHECK(layer.has_stripe(1));
}

TEST_CASE("who waits for a layer whose pump ends early is told", "[share]") {
    TempFolder folder;
    Fd file = folder.create("layer");
    GrowingLayer layer(any_digest());
    auto pump = std::make_unique<ChunkPump>(layer, descriptor_of(file.get(), "layer"), "layer");
    std::thread reader([&] { CHECK(layer.wait_for(0, 0, std::chrono::seconds(30)).index == ChunkHead::gone); });
    pump.reset();
    reader.join();
}
