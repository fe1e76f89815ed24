#include <zlib.h>
#include <zstd.h>

#include <random>

#include "runtime/base/error.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/layer/gzip.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pack.hh"

using namespace berth;
using namespace berth::oci;
using fixtures::gzip;
using fixtures::zstd;

namespace {

/// Of the test that runs: each one about gzip holds for all of them.
GzipEngine engine = best_gzip_engine();

void every_engine() { engine = GENERATE(from_range(gzip_engines())); }

std::string unpacked(const std::string& bytes, size_t step = std::string::npos) {
    std::string out;
    auto decompressor = make_decompressor([&](std::string_view data) { out += data; }, engine);
    for (size_t at = 0; at < bytes.size(); at += std::min(step, bytes.size() - at))
        decompressor->feed(std::string_view(bytes).substr(at, step));
    decompressor->finish();
    return out;
}

std::string text(size_t size) {
    std::mt19937 random(3);
    std::string out;
    while (out.size() < size) out += "line " + std::to_string(random() % 5000) + '\n';
    return out;
}

}  // namespace

TEST_CASE("decompress: gzip, zstd and plain bytes are told by content", "[decompress]") {
    every_engine();
    std::string data = text(700'000);
    for (size_t step : {size_t{1}, size_t{4093}, std::string::npos}) {
        CHECK((unpacked(gzip(data), step) == data));
        CHECK((unpacked(zstd(data), step) == data));
        CHECK((unpacked(data, step) == data));
    }
    CHECK(unpacked("").empty());
    CHECK(unpacked("abc") == "abc");
    CHECK(unpacked(gzip("")).empty());
    CHECK(unpacked(zstd("")).empty());
}

TEST_CASE("hostile row 17: multi-member gzip is whole, cut or followed by garbage it is refused",
          "[decompress][hostile]") {
    every_engine();
    std::string first = text(3000), second = text(100), packed = gzip(first) + gzip("") + gzip(second);
    for (size_t step = 1; step < 80; ++step) CHECK((unpacked(packed, step) == first + second));
    CHECK((unpacked(packed) == first + second));
    size_t boundary = gzip(first).size(), second_boundary = boundary + gzip("").size();
    for (size_t cut = 1; cut < packed.size(); ++cut) {
        if (cut == boundary || cut == second_boundary || cut < 2) continue;
        CHECK_THROWS_AS(unpacked(packed.substr(0, cut)), Error);
        CHECK_THROWS_AS(unpacked(packed.substr(0, cut), 1), Error);
    }
    for (const char* garbage : {"x", "garbage that is long enough to be a header", "\x1f", "\x1f\x8b"})
        CHECK_THROWS_AS(unpacked(packed + garbage), Error);
    CHECK_THROWS_WITH(unpacked(packed + "not gzip"), Catch::Contains("followed by bytes"));
    CHECK_THROWS_AS(unpacked(packed + std::string(512, '\0')), Error);
}

TEST_CASE("decompress: damaged gzip is refused", "[decompress]") {
    every_engine();
    std::string packed = gzip(text(50'000));
    std::string bad = packed;
    bad[bad.size() - 8] ^= 1;
    CHECK_THROWS_WITH(unpacked(bad), Catch::Contains("checksum"));
    bad = packed;
    bad[bad.size() - 1] ^= 1;
    CHECK_THROWS_AS(unpacked(bad), Error);
    for (size_t at = 10; at < packed.size(); at += 97) {
        bad = packed;
        bad[at] = static_cast<char>(bad[at] ^ 0x40);
        CHECK_THROWS_AS(unpacked(bad), Error);
    }
}

TEST_CASE("decompress: gzip headers with every optional field", "[decompress]") {
    every_engine();
    std::string plain = gzip("payload"), body = plain.substr(10);
    std::string header = plain.substr(0, 10);
    header[3] = 4 | 8 | 16;
    std::string packed = header +
                         std::string(
                             "\x04\x00"
                             "abcd",
                             6) +
                         std::string("name\0", 5) + std::string("comment\0", 8) + body;
    for (size_t step : {size_t{1}, size_t{5}, std::string::npos})
        CHECK(unpacked(packed + packed, step) == "payloadpayload");
}

TEST_CASE("decompress: zstd frames follow one another, skippable ones between", "[decompress]") {
    std::string data = text(200'000), skippable("\x50\x2A\x4D\x18\x03\x00\x00\x00xyz", 11);
    std::string packed = skippable + zstd(data) + skippable + zstd("end");
    for (size_t step : {size_t{1}, size_t{1000}, std::string::npos}) CHECK((unpacked(packed, step) == data + "end"));
    CHECK_THROWS_AS(unpacked(packed + "junk"), Error);
    std::string one = zstd(data);
    for (size_t cut = 5; cut < one.size(); cut += 101)
        CHECK_THROWS_WITH(unpacked(one.substr(0, cut)), Catch::Contains("cut off"));
}

TEST_CASE("hostile row 18: a zstd window over 128 MiB is refused", "[decompress][hostile]") {
    std::string data = text(1000);
    CHECK((unpacked(zstd(data, 27)) == data));
    CHECK_THROWS_WITH(unpacked(zstd(data, 28)), Catch::Contains("asks for too much"));
}

TEST_CASE("hostile row 14: much output comes in small pieces", "[decompress][hostile]") {
    every_engine();
    std::string zeros(100 << 20, '\0');
    for (const std::string& packed : {gzip(zeros), zstd(zeros)}) {
        size_t largest = 0, total = 0;
        auto decompressor = make_decompressor(
            [&](std::string_view data) { largest = std::max(largest, data.size()), total += data.size(); }, engine);
        decompressor->feed(packed);
        decompressor->finish();
        CHECK(total == zeros.size());
        CHECK(largest <= 256 * 1024);
    }
}

TEST_CASE("decompress: zlib is in every build, and the engine in use has a name", "[decompress]") {
    CHECK(gzip_engines().back() == GzipEngine::zlib);
    CHECK_THAT(name_of(GzipEngine::zlib), Catch::StartsWith("zlib 1."));
    CHECK_FALSE(name_of(best_gzip_engine()).empty());
}

TEST_CASE("digest: SHA-256 as manifests write it", "[decompress]") {
    CHECK(sha256_of("") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_of("abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
