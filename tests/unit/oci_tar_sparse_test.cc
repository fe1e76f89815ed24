#include "runtime/base/error.hh"
#include "runtime/oci/layer/tar.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_recorder.hh"

using namespace berth;
using namespace berth::oci;
using fixtures::old_sparse_block;
using fixtures::parsed;
using fixtures::TarBuilder;
using fixtures::TarItem;
using Type = TarEntry::Type;

namespace {

const std::string sparse_content =
    std::string(1000, '\0') + "abc" + std::string(2000, '\0') + "de" + std::string(95, '\0');

}  // namespace

TEST_CASE("hostile row 22: sparse files of all formats are exact", "[tar][hostile]") {
    auto check = [](const std::string& bytes) {
        for (size_t step : {size_t{1}, size_t{300}, std::string::npos}) {
            auto seen = parsed(bytes, step);
            REQUIRE(seen.size() == 2);
            CHECK(seen[0].entry.name == "sparse");
            CHECK(seen[0].entry.type == Type::file);
            CHECK((seen[0].content == sparse_content));
            CHECK(seen[1].entry.name == "after");
        }
    };
    check(TarBuilder()
              .raw_header(old_sparse_block({{1000, 3}, {3003, 2}, {3100, 0}}, 5, 3100, false))
              .data("abcde")
              .file("after", "")
              .finished());
    check(TarBuilder()
              .pax({{"GNU.sparse.size", "3100"},
                    {"GNU.sparse.numblocks", "2"},
                    {"GNU.sparse.offset", "1000"},
                    {"GNU.sparse.numbytes", "3"},
                    {"GNU.sparse.offset", "3003"},
                    {"GNU.sparse.numbytes", "2"}})
              .file("sparse", "abcde")
              .file("after", "")
              .finished());
    check(TarBuilder()
              .pax({{"GNU.sparse.name", "sparse"}, {"GNU.sparse.size", "3100"}, {"GNU.sparse.map", "1000,3,3003,2"}})
              .file("GNUSparseFile.1/sparse", "abcde")
              .file("after", "")
              .finished());
    std::string map = "3\n1000\n3\n3003\n2\n3100\n0\n";
    map.resize(512);
    check(TarBuilder()
              .pax({{"GNU.sparse.major", "1"},
                    {"GNU.sparse.minor", "0"},
                    {"GNU.sparse.name", "sparse"},
                    {"GNU.sparse.realsize", "3100"}})
              .file("GNUSparseFile.1/sparse", map + "abcde")
              .file("after", "")
              .finished());
}

TEST_CASE("tar: sparse maps that do not fit are refused", "[tar]") {
    auto old = [](const std::vector<std::pair<uint64_t, uint64_t>>& pieces, uint64_t stored, uint64_t real) {
        return TarBuilder()
            .raw_header(old_sparse_block(pieces, stored, real, false))
            .data(std::string(stored, 'x'))
            .finished();
    };
    CHECK_THROWS_AS(parsed(old({{1000, 3}, {500, 2}}, 5, 3100)), Error);
    CHECK_THROWS_AS(parsed(old({{1000, 3}, {1002, 2}}, 5, 3100)), Error);
    CHECK_THROWS_AS(parsed(old({{1000, 3}}, 5, 3100)), Error);
    CHECK_THROWS_AS(parsed(old({{1000, 5}}, 5, 1004)), Error);
    CHECK_THROWS_AS(parsed(old({{UINT64_MAX / 4, 5}}, 5, 1004)), Error);
    auto in_data = [](std::string map) {
        map.resize((map.size() + 511) / 512 * 512);
        return TarBuilder()
            .pax({{"GNU.sparse.major", "1"}, {"GNU.sparse.realsize", "100"}})
            .file("a", map + "abcde")
            .finished();
    };
    CHECK(parsed(in_data("1\n10\n5\n"))[0].entry.size == 100);
    for (const char* map :
         {"1\n10\n4\n", "x\n", "2000000\n", "-1\n", "1\n10\n99999999999999999999999\n", "\n", "9\n1\n", ""})
        CHECK_THROWS_AS(parsed(in_data(map)), Error);
    CHECK_THROWS_AS(
        parsed(TarBuilder().pax({{"GNU.sparse.map", "1,2,3"}, {"GNU.sparse.size", "9"}}).file("a", "12").finished()),
        Error);
    CHECK_THROWS_AS(parsed(TarBuilder().pax({{"GNU.sparse.map", "1,2"}}).file("a", "12").finished()), Error);
    CHECK_THROWS_AS(
        parsed(TarBuilder().pax({{"GNU.sparse.numbytes", "2"}, {"GNU.sparse.size", "9"}}).file("a", "12").finished()),
        Error);
    CHECK_THROWS_AS(parsed(TarBuilder().pax({{"GNU.sparse.major", "2"}}).file("a", "12").finished()), Error);
}
