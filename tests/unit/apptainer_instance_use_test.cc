#include <nlohmann/json.hpp>

#include "runtime/apptainer/instance_use.hh"
#include "tests/catch.hh"

using namespace berth::apptainer;

namespace {

constexpr uint64_t ticks = 100, page = 4096;
/// utime, stime, cutime and cstime are 5, 7, 11 and 13 hundredths of a second.
constexpr const char* stat = "42 (a ) 1 name) S 1 42 42 0 -1 4194560 100 0 0 0 5 7 11 13 20 0 1 0 5 1000 200\n";

}  // namespace

TEST_CASE("apptainer: what an instance uses is the sum of its processes", "[apptainer]") {
    InstanceUse use;
    use.add(stat, "55 - 7f [rollup]\nRss:  900 kB\nPss:   300 kB\nPss_Dirty: 1 kB\n", "1000 225 3",
            "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n", ticks, page);
    CHECK(use.cpu == 360'000'000);
    CHECK(use.memory == 300 * 1024);
    CHECK(use.read == 4096);
    CHECK(use.written == 8192);
    SECTION("where the kernel does not tell what is shared, all of it counts") {
        use.add(stat, "", "1000 225 3", "", ticks, page);
        CHECK(use.memory == 300 * 1024 + 225 * page);
        CHECK(use.processes == 2);
    }
    SECTION("a process that has gone meanwhile, and what is no such file, count as nothing") {
        for (const char* text : {"", "42", "42 (x) S 1", "(((", ")"})
            use.add(text, "Pss: x kB", "1", "read_bytes", 1, 1);
        CHECK(use.processes == 1);
        CHECK(use.memory == 300 * 1024);
    }
}

TEST_CASE("apptainer: what an instance uses is printed in Apptainer's form", "[apptainer]") {
    InstanceUse before{.time = 1'000'000'000, .cpu = 500'000'000}, now{.time = 3'000'000'000,
                                                                       .cpu = 1'500'000'000,
                                                                       .memory = 3 << 19,
                                                                       .limit = 3 << 21,
                                                                       .read = 1000,
                                                                       .processes = 7};
    CHECK(use_table("web", before, now) ==
          "INSTANCE NAME    CPU USAGE    MEM USAGE / LIMIT    MEM %     BLOCK I/O     PIDS\n"
          "web              50.00%       1.5MiB / 6MiB        25.00%    1000B / 0B    7\n");
    // A process that used more has ended.
    std::string after = use_table("web", now, {.time = 4'000'000'000});
    CHECK(after.find("web              0.00%        0B / 0B") != std::string::npos);
    auto json = nlohmann::json::parse(use_json(now));
    CHECK(json["cpu_stats"]["cpu_usage"]["total_usage"] == 1'500'000'000);
    CHECK(json["memory_stats"]["usage"]["limit"] == 3 << 21);
    CHECK(json["blkio_stats"]["io_service_bytes_recursive"][0]["value"] == 1000);
    CHECK(json["pids_stats"]["current"] == 7);
}
