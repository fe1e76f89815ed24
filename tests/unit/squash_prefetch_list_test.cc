#include "runtime/squash/read/prefetch_list.hh"

#include <map>
#include <memory>
#include <random>

#include "runtime/base/memory_room.hh"
#include "runtime/mount/fuse/prefetcher.hh"
#include "runtime/squash/read/read_log.hh"
#include "tests/catch.hh"

using namespace berth;
using squash::PrefetchExtent;
using squash::PrefetchList;
using squash::ReadLog;

namespace {

using Extents = std::vector<PrefetchExtent>;

void check_limits(const PrefetchList& list) {
    CHECK(list.extents.size() <= squash::prefetch_extents);
    uint64_t pages = 0;
    for (const PrefetchExtent& extent : list.extents) {
        CHECK(extent.inode != 0);
        CHECK(extent.count <= squash::prefetch_extent_bytes / squash::prefetch_page);
        pages += extent.count;
    }
    CHECK(pages <= squash::prefetch_bytes / squash::prefetch_page);
}

}  // namespace

TEST_CASE("prefetch: a list is read as it was written", "[prefetch]") {
    PrefetchList list{1234567890123, {{7, 0, 3}, {2, 100, 32}, {3, 0, 0}, {7, 10, 1}},
                      {{3, "a.so"}, {3, std::string(255, 'x')}}};
    PrefetchList again = squash::parse_prefetch_list(squash::format_prefetch_list(list));
    CHECK(again.learnt == list.learnt);
    CHECK(again.extents == list.extents);
    CHECK(again.missing == list.missing);
    CHECK(squash::prefetch_learnt(squash::format_prefetch_list(list)) == list.learnt);
    CHECK(squash::prefetch_learnt("berthpf1") == 0);
}

TEST_CASE("prefetch: what is new is added, and no page comes twice", "[prefetch]") {
    PrefetchList before{1, {{1, 0, 10}, {2, 0, 1}}, {}};
    CHECK(squash::merged(before, {{{1, 2, 3}, {3, 0, 1}, {2, 0, 1}}, {}}).extents ==
          Extents{{1, 0, 10}, {2, 0, 1}, {3, 0, 1}});
    CHECK(squash::merged(before, {{{1, 5, 10}}, {}}).extents == Extents{{1, 0, 10}, {2, 0, 1}, {1, 10, 5}});
    CHECK(squash::merged({1, {{1, 4, 2}, {1, 8, 2}}, {}}, {{{1, 0, 12}}, {}}).extents ==
          Extents{{1, 4, 2}, {1, 8, 2}, {1, 0, 4}, {1, 6, 2}, {1, 10, 2}});
    CHECK(squash::merged({1, {{1, 0, 2}}, {}}, {{{1, 2, 2}, {1, 0, 4}, {1, 3, 2}}, {}}).extents ==
          Extents{{1, 0, 2}, {1, 2, 2}, {1, 4, 1}});
    PrefetchList list = squash::merged({1, {{5, 0, 0}}, {{5, "a"}}}, {{{5, 0, 0}, {6, 0, 0}}, {{5, "a"}, {5, "b"}}});
    CHECK(list.extents == Extents{{5, 0, 0}, {6, 0, 0}});
    CHECK(list.missing == std::vector<squash::MissingName>{{5, "a"}, {5, "b"}});
    // What is no name of a directory's entry.
    for (const char* name : {"", ".", "..", "a/b"}) CHECK(squash::merged({}, {{}, {{5, name}}}).missing.empty());
}

TEST_CASE("hostile: a list of any bytes is within its limits", "[prefetch]") {
    std::mt19937 random(1);
    const std::string start = squash::format_prefetch_list({1, {}, {}});
    for (int turn = 0; turn < 200; ++turn) {
        std::string bytes = start.substr(0, random() % 2 == 0 ? 16 : 20);
        if (bytes.size() == 16) bytes += std::string{static_cast<char>(random()), 0, 0, 0};
        for (size_t i = random() % 4096; i > 0; --i) bytes += static_cast<char>(random());
        check_limits(squash::parse_prefetch_list(bytes));
    }
    check_limits(squash::parse_prefetch_list(start + std::string(8 << 20, '\xff')));
    check_limits(squash::parse_prefetch_list(start.substr(0, 16) + std::string(8 << 20, '\1')));
    PrefetchList huge{1, {}, {}};
    for (uint32_t i = 1; i <= 100'000; ++i) huge.extents.push_back({i, 0, 16384});
    CHECK(squash::parse_prefetch_list(squash::format_prefetch_list(huge)).extents.empty());
    huge.extents.resize(squash::prefetch_extents);
    check_limits(squash::parse_prefetch_list(squash::format_prefetch_list(huge)));
    for (const char* text : {"", "berthpf1", "berthpf2aaaaaaaaaaaaaaaaaaaaaaa", "x"})
        CHECK(squash::parse_prefetch_list(text).extents.empty());
    // More extents than there are bytes for.
    CHECK(squash::parse_prefetch_list(start.substr(0, 16) + std::string{2, 0, 0, 0} + "abcdefghijklabcdefghijk")
              .extents.empty());
}

TEST_CASE("prefetch: reads are logged in the order of their first use", "[prefetch]") {
    ReadLog log({});
    log.add(5, 0, 100);
    log.add(9, 8192, 4096);
    log.add(5, 4096, 131072);
    log.add(5, 0, 4096);
    log.add(9, 65536, 1);
    log.add(5, UINT64_MAX, 10);
    log.add(5, 10, 0);
    log.add_listing(3);
    log.add_listing(3);
    log.add_missing(3, "a.so");
    CHECK(log.reads().extents == Extents{{5, 0, 33}, {9, 2, 1}, {9, 16, 1}, {3, 0, 0}});
    CHECK(log.reads().missing == std::vector<squash::MissingName>{{3, "a.so"}});
    CHECK_FALSE(log.is_decided());
    ReadLog late({}, ReadLog::Clock::now() - std::chrono::seconds(1));
    late.add(5, 0, 100);
    late.add_listing(3);
    late.add_missing(3, "a");
    CHECK(late.reads().extents.empty());
    CHECK(late.reads().missing.empty());
}

TEST_CASE("prefetch: a container that reads what is known is told once from one that does not", "[prefetch]") {
    PrefetchList known{1, {}, {}};
    for (uint32_t i = 1; i <= ReadLog::deciding; ++i) known.extents.push_back({i, 0, 1});
    auto answers = [&](uint32_t of_list) {
        ReadLog log(std::make_shared<const std::string>(squash::format_prefetch_list(known)));
        std::vector<ReadLog::Follows> out;
        for (uint32_t i = 1; i <= ReadLog::deciding + 10; ++i)
            if (auto follows = log.add(i <= of_list ? i : i + 1000, 0, 1); follows != ReadLog::Follows::unknown)
                out.push_back(follows);
        CHECK(log.is_decided());
        return out;
    };
    CHECK(answers(ReadLog::deciding) == std::vector{ReadLog::Follows::yes});
    CHECK(answers(ReadLog::deciding / 2) == std::vector{ReadLog::Follows::yes});
    CHECK(answers(ReadLog::deciding / 2 - 1) == std::vector{ReadLog::Follows::no});
}

TEST_CASE("prefetch: a quarter of the memory that the job has, and of what is left of it", "[prefetch]") {
    auto room = [](const std::string& membership, std::map<std::string, std::string> files) {
        return memory_room(membership, [&](const std::string& path) {
            auto found = files.find(path);
            return found == files.end() ? std::nullopt : std::optional(found->second);
        });
    };
    const std::string groups = "/sys/fs/cgroup";
    MemoryRoom two = room("0::/job/step\n", {{groups + "/job/memory.max", "1000000\n"},
                                             {groups + "/job/memory.current", "500000\n"},
                                             {groups + "/job/memory.stat", "anon 100000\nfile 300000\n"},
                                             {groups + "/job/step/memory.max", "max\n"},
                                             {"/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    9000 kB\n"}});
    CHECK(two.limit == 1000000);
    CHECK(two.left == 800000);
    CHECK(mount::prefetch_budget(two) == 200000);
    MemoryRoom one = room("4:memory:/job\n3:cpu:/x\n",
                          {{groups + "/memory/job/memory.limit_in_bytes", "4000\n"},
                           {groups + "/memory/job/memory.usage_in_bytes", "9000\n"},
                           {groups + "/memory/memory.limit_in_bytes", "9223372036854771712\n"}});
    CHECK(one.limit == 4000);
    CHECK(one.left == 0);
    CHECK(mount::prefetch_budget(one) == 0);
    MemoryRoom none = room("junk\n0::/\n", {{"/proc/meminfo", "MemAvailable: 100 kB\n"}});
    CHECK_FALSE(none.limit);
    CHECK(mount::prefetch_budget(none) == 25600);
    CHECK(mount::prefetch_budget({}) == squash::prefetch_bytes);
}
