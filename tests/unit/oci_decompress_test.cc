#include <zlib.h>
#include <zstd.h>

#include <atomic>
#include <random>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/layer/gzip.hh"
#include "tests/catch.hh"
#include "tests/fixtures/compress.hh"
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

TEST_CASE("decompress: packings that are none of a layer's are named", "[decompress]") {
    std::string tar = text(5000);
    for (size_t step : {size_t{1}, std::string::npos}) {
        CHECK_THROWS_WITH(unpacked(fixtures::compressed(tar, "xz"), step), Catch::Contains("packed with xz"));
        CHECK_THROWS_WITH(unpacked(fixtures::compressed(tar, "bzip2"), step), Catch::Contains("packed with bzip2"));
        CHECK(unpacked("BZh9 is the name of a file", step) == "BZh9 is the name of a file");
    }
}

TEST_CASE("decompress: zeros may follow where bsdtar has padded", "[decompress]") {
    every_engine();
    auto padded = [&](const std::string& packed, size_t step) {
        std::string out;
        auto inner = make_decompressor([&](std::string_view data) { out += data; }, engine);
        ZeroPadded outer(*inner);
        for (size_t at = 0; at < packed.size(); at += std::min(step, packed.size() - at))
            outer.feed(std::string_view(packed).substr(at, step));
        outer.finish();
        return out;
    };
    // Level 0: the data itself ends with zeros.
    std::string data = text(70'000), holes(100'000, '\0');
    for (const std::string& packed :
         {gzip(data), gzip(data + holes, 0), zstd(data), zstd(holes), gzip(data) + gzip("end")}) {
        std::string plain = unpacked(packed);
        for (size_t zeros : {0, 1, 511, 300'000})
            for (size_t step : {size_t{1000}, std::string::npos})
                CHECK((padded(packed + std::string(zeros, '\0'), step) == plain));
        CHECK_THROWS_AS(padded(packed + std::string(512, '\0') + "x", std::string::npos), Error);
        CHECK_THROWS_AS(padded(packed.substr(0, packed.size() / 2), std::string::npos), Error);
        // Not where a layer's bytes decide.
        CHECK_THROWS_AS(unpacked(packed + std::string(512, '\0')), Error);
    }
}

TEST_CASE("decompress: a large zstd window is for one at a time, where the pull's memory has room", "[decompress]") {
    std::string data = text(1000), skippable("\x50\x2A\x4D\x18\x03\x00\x00\x00xyz", 11);
    // One frame that says its size and no window, as the one-shot functions write it.
    std::string single(ZSTD_compressBound(data.size()), '\0');
    single.resize(ZSTD_compress(single.data(), single.size(), data.data(), data.size(), 1));
    auto by = [&](LargeWindows& windows, const std::string& bytes, size_t step = std::string::npos) {
        std::string out;
        auto decompressor = make_decompressor([&](std::string_view part) { out += part; }, engine, &windows);
        for (size_t at = 0; at < bytes.size(); at += std::min(step, bytes.size() - at))
            decompressor->feed(std::string_view(bytes).substr(at, step));
        decompressor->finish();
        return out;
    };
    LargeWindows enough((512 + 48) << 20), some((256 + 48) << 20), usual(128 << 20);
    for (size_t step : {size_t{1}, size_t{7}, std::string::npos}) {
        CHECK((by(enough, zstd(data, 29), step) == data));
        CHECK((by(some, single + skippable + zstd(data, 28) + single, step) == data + data + data));
    }
    CHECK((by(usual, zstd(data, 27) + single) == data + data));
    CHECK_THROWS_WITH(by(some, zstd(data, 29)), Catch::Contains("set limits.pull_memory to \"560M\" or more"));
    CHECK_THROWS_WITH(by(usual, zstd(data) + zstd(data, 28)), Catch::Contains("\"304M\" or more"));
    CHECK_THROWS_WITH(by(enough, zstd(data, 30)), Catch::Contains("the most is"));
    // Size and window at once, of a content that is larger than any limit: the head alone decides.
    std::string huge("\x28\xB5\x2F\xFD\xE0\0\0\0\0\1\0\0\0", 13);
    CHECK_THROWS_WITH(by(enough, huge + data), Catch::Contains("the most is"));

    // The second one waits until the first one is gone.
    auto first = make_decompressor([](std::string_view) {}, engine, &enough);
    first->feed(zstd(data, 28));
    std::atomic<bool> is_through = false;
    std::jthread second([&] {
        by(enough, zstd(data, 28));
        is_through = true;
    });
    CHECK((by(enough, zstd(data, 27)) == data));  // the usual ones do not wait
    CHECK_FALSE(is_through);
    first.reset();
    second.join();
    CHECK(is_through);
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
