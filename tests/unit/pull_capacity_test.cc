#include "runtime/base/error.hh"
#include "runtime/pull/image/capacity.hh"
#include "runtime/pull/image/settings.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::pull;
using squash::Codec;

TEST_CASE("capacity: memory decides how much of a pull goes on at once", "[pull]") {
    Capacity usual = capacity_for({}, 8);
    CHECK(usual.layers == 4);
    CHECK(usual.pool.threads == 8);
    CHECK(usual.pool.buffers == 2 * 4 + 2 * 8 + 1);
    CHECK(capacity_for({.connections = 1}, 8).layers == 1);
    CHECK(capacity_for({.threads = 3}, 8).pool.threads == 3);
    // On a large machine the default still has room for most of it.
    CHECK(capacity_for({}, 256).pool.threads > 48);
    CHECK(capacity_for({.connections = 64, .memory = 4ULL << 30}, 256).layers == 64);
    CHECK(capacity_for({.connections = 64, .memory = 4ULL << 30}, 256).pool.threads == 256);
}

TEST_CASE("capacity: what it plans stays below the memory, and never stands still", "[pull]") {
    for (Codec codec : {Codec::zstd, Codec::lz4, Codec::gzip, Codec::none})
        for (unsigned level : {0U, 9U, 22U})
            for (uint64_t memory = least_memory; memory <= 1ULL << 32; memory *= 2)
                for (unsigned cpus : {1U, 2U, 64U, 512U})
                    for (unsigned connections : {1U, 4U, 64U}) {
                        PullLimits limits{.compression = {codec, level}, .connections = connections, .memory = memory};
                        Capacity got = capacity_for(limits, cpus);
                        INFO("memory " << memory << ", cpus " << cpus << ", connections " << connections << ", level "
                                       << level);
                        REQUIRE(got.layers >= 1);
                        REQUIRE(got.layers <= connections);
                        REQUIRE(got.pool.threads >= 1);
                        REQUIRE(got.pool.threads <= cpus);
                        REQUIRE(got.pool.buffers > 2 * got.layers);
                        uint64_t planned = (32ULL << 20) + got.layers * (4ULL << 20) +
                                           got.pool.buffers * uint64_t{got.pool.block_size} +
                                           got.pool.threads * squash::compressor_memory(limits.compression);
                        REQUIRE(planned <= memory);
                    }
}

TEST_CASE("capacity: the site's keys become limits, and a level that the codec lacks is named", "[pull]") {
    plan::Site site;
    CHECK(pull_limits(site).compression.codec == Codec::zstd);
    CHECK(pull_limits(site).memory == 128ULL << 20);
    site.store.compression = plan::LayerCodec::lz4;
    site.store.compression_level = 12;
    site.network.connections = 9;
    CHECK(pull_limits(site).compression.codec == Codec::lz4);
    CHECK(pull_limits(site).compression.level == 12);
    CHECK(pull_limits(site).connections == 9);
    site.store.compression = plan::LayerCodec::gzip;
    CHECK_THROWS_WITH(pull_limits(site), "store.compression_level: gzip has no level 12; write 0 to 9");
    site.store.compression = plan::LayerCodec::none;
    CHECK_THROWS_WITH(pull_limits(site), Catch::Contains("none has no level 12; leave it at 0"));
}
