// Which chunks of an image are noted as read.
#include "runtime/squash/read/chunk_log.hh"
#include "tests/catch.hh"

using berth::squash::ChunkLog;

TEST_CASE("chunks that were read are noted once, in the order of their first use", "[early]") {
    ChunkLog log(4);
    log.add({2, 1});
    log.add({0, 3});
    log.add({3, 5});
    CHECK(log.chunks() == std::vector<uint32_t>{2, 0, 1, 3});
}

TEST_CASE("what is read too late is not noted", "[early]") {
    ChunkLog log(4, ChunkLog::Clock::now() - std::chrono::seconds(1));
    log.add({0, 4});
    CHECK(log.chunks().empty());
}
