#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"
#include "tests/catch.hh"

using namespace berth;

TEST_CASE("loader cache: what is written is read again, in the loader's order", "[plan][hooks]") {
    LoaderCache cache;
    cache.hwcaps = {"x86-64-v2", "x86-64-v3"};
    cache.libraries = {{0x0303, "liba.so.1", "/usr/lib/liba.so.1", 0, 0},
                       {0x0303, "libb.so.2", "/usr/lib/libb.so.2", 0, 0},
                       {0x0003, "libb.so.10", "/usr/lib32/libb.so.10", 0, 0},
                       {0x0303, "libb.so.10", "/usr/lib/libb.so.10", 0, 0},
                       {0x0303, "libb.so.10", "/usr/lib/glibc-hwcaps/x86-64-v3/libb.so.10", 0, (1ULL << 62) | 1}};
    LoaderCache again = parse_loader_cache(loader_cache_bytes(cache), "ld.so.cache");
    CHECK(again.hwcaps == cache.hwcaps);
    std::string order;
    for (const plan::CachedLibrary& library : again.libraries) order += library.path + " ";
    CHECK(order ==
          "/usr/lib/glibc-hwcaps/x86-64-v3/libb.so.10 /usr/lib/libb.so.10 /usr/lib32/libb.so.10 /usr/lib/libb.so.2 "
          "/usr/lib/liba.so.1 ");
    CHECK(again.libraries[0] == cache.libraries[4]);
}

TEST_CASE("loader cache: a library takes the place of those with its name and kind", "[plan][hooks]") {
    LoaderCache cache;
    cache.libraries = {{0x0303, "libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1", 0, 0},
                       {0x0003, "libcuda.so.1", "/usr/lib32/libcuda.so.1", 0, 0}};
    add_libraries(cache, {{0x0303, "libcuda.so.1", "/usr/lib64/libcuda.so.1", 0, 0}});
    REQUIRE(cache.libraries.size() == 2);
    CHECK(cache.libraries[0].path == "/usr/lib32/libcuda.so.1");
    CHECK(cache.libraries[1].path == "/usr/lib64/libcuda.so.1");
}

TEST_CASE("loader cache: this machine's own, read and written, means the same", "[plan][hooks]") {
    std::string bytes = sys::read_file("/etc/ld.so.cache", 16 << 20);
    LoaderCache cache = parse_loader_cache(bytes, "/etc/ld.so.cache");
    CHECK(cache.libraries.size() > 10);
    CHECK(parse_loader_cache(loader_cache_bytes(cache), "again") == cache);
    // With an old part in front, as glibc before 2.32 wrote it.
    std::string old("ld.so-1.7.0\0", 12);
    old += std::string("\1\0\0\0", 4) + std::string(12, '\0');
    old.resize((old.size() + 7) / 8 * 8);
    CHECK(parse_loader_cache(old + bytes, "old") == cache);
}

TEST_CASE("loader cache: damage is refused in one line", "[plan][hooks]") {
    LoaderCache cache;
    cache.libraries = {{0x0303, "liba.so.1", "/usr/lib/liba.so.1", 0, 0}};
    std::string good = loader_cache_bytes(cache);
    auto with = [&](size_t at, uint32_t number) {
        std::string bad = good;
        std::memcpy(bad.data() + at, &number, sizeof number);
        return bad;
    };
    for (const std::string& bad :
         {std::string(), std::string("ld.so-1.7.0"), good.substr(0, 30), good.substr(0, good.size() - 1),
          with(20, 0xFFFFFFFF), with(48 + 4, 0x7FFFFFFF), with(32, 0xFFFFFF)})
        CHECK_THROWS_WITH(parse_loader_cache(bad, "/etc/ld.so.cache"), Catch::StartsWith("reading /etc/ld.so.cache: "));
}
