#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/telemetry/counters_file.hh"
#include "runtime/telemetry/event_cause.hh"
#include "runtime/telemetry/event_log.hh"
#include "tests/catch.hh"

using namespace berth;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path;
    Folder() {
        char name[] = "/tmp/berth-counters-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Folder() { fs::remove_all(path); }
    std::string own() const { return path / cat(::getuid(), ".counters"); }
};

uint64_t starts_of(const CountersSum& sum) { return sum.counters.starts[0]; }

}  // namespace

TEST_CASE("counters file: processes that count at once lose nothing", "[runtime]") {
    Folder folder;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int n = 0; n < 50; ++n)
                if (!count_event(open_counters(folder.path, ::getuid()).get(), {})) --n;
        });
    for (std::thread& thread : threads) thread.join();
    CountersSum sum = sum_counters(folder.path, ::getuid());
    CHECK(starts_of(sum) == 200);
    CHECK(sum.files == 1);
    CHECK(sum.refused.empty());
}

TEST_CASE("counters file: what a user puts in its place is refused, and waited for by nobody", "[runtime]") {
    Folder folder;
    SECTION("a symlink") { fs::create_symlink("/etc/passwd", folder.own()); }
    SECTION("a pipe") { REQUIRE(::mkfifo(folder.own().c_str(), 0600) == 0); }
    SECTION("a directory") { fs::create_directory(folder.own()); }
    SECTION("a text of another form") { std::ofstream(folder.own()) << std::string(plan::counters_size(), '7'); }
    SECTION("a huge file") {
        std::ofstream(folder.own()) << "berth counters 2\n", fs::resize_file(folder.own(), 1ULL << 40);
    }
    SECTION("a second name of it") {
        count_event(open_counters(folder.path, ::getuid()).get(), {});
        fs::create_hard_link(folder.own(), folder.path / "other");
    }
    auto begin = std::chrono::steady_clock::now();
    CountersSum sum = sum_counters(folder.path, 0);
    CHECK(sum.files == 0);
    REQUIRE(sum.refused.size() == 1);
    CHECK(sum.refused[0].starts_with("reading the counters "));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
}

TEST_CASE("counters file: folders of the users' own are summed, and entered as warily as files are read", "[runtime]") {
    Folder folder;
    std::string own = folder.path / cat(::getuid(), ".counters"), other = folder.path / "4294967294.counters";
    std::string pattern = folder.path.string() + "/%U.counters";
    fs::create_directory(own);
    // Made by root, and nothing counted yet.
    CHECK(sum_all_counters(pattern).refused.empty());
    REQUIRE(count_event(open_counters(own, ::getuid()).get(), {}));
    for (const char* stray : {"x.counters", ".counters", "7", "7.counters.old"})
        fs::create_directory(folder.path / stray);
    SECTION("a link") { fs::create_directory_symlink(own, other); }
    SECTION("a file") { std::ofstream(other) << "x"; }
    SECTION("a folder with another user's file") {
        fs::create_directory(other);
        fs::copy(own + cat("/", ::getuid(), ".counters"), other + "/4294967294.counters");
    }
    CountersSum sum = sum_all_counters(pattern);
    CHECK(starts_of(sum) == 1);
    CHECK(sum.files == 1);
    CHECK(sum.refused.size() == 1);
    for (const char* place : {"/%U/counters", "/%u.%U", "/counters"})
        CHECK_THROWS_WITH(sum_all_counters(folder.path.string() + place), Catch::Contains("%U in its last part"));
}

TEST_CASE("counters file: a lock that is kept costs its own counters only", "[runtime]") {
    Folder folder;
    Fd kept = open_counters(folder.path, ::getuid());
    REQUIRE(count_event(kept.get(), {}));
    REQUIRE(::flock(kept.get(), LOCK_EX) == 0);
    CHECK(sum_counters(folder.path, 0).refused.at(0).find("keeps them locked") != std::string::npos);
    CHECK_FALSE(count_event(open_counters(folder.path, ::getuid()).get(), {}));
    ::flock(kept.get(), LOCK_UN);
    CHECK(starts_of(sum_counters(folder.path, 0)) == 1);
}

TEST_CASE("counters file: what was damaged begins at zero", "[runtime]") {
    Folder folder;
    std::ofstream(folder.own()) << "not counters, and longer than they are: " << std::string(5000, 'x');
    REQUIRE(count_event(open_counters(folder.path, ::getuid()).get(), {}));
    CHECK(starts_of(sum_counters(folder.path, ::getuid())) == 1);
}

TEST_CASE("event log: a file gets one line an event, behind what is there; what cannot be opened costs the event only",
          "[runtime]") {
    Folder folder;
    plan::Caller caller;
    caller.uid = ::getuid();
    caller.user = "somebody";
    plan::Site site;
    CHECK_FALSE(EventLog(site, caller).wanted());
    site.events.log = folder.path / "%u.jsonl";
    for (int i = 0; i < 2; ++i) EventLog(site, caller).write({});
    std::string text = sys::read_file(folder.path / "somebody.jsonl");
    CHECK(std::count(text.begin(), text.end(), '\n') == 2);
    CHECK(text.starts_with("{\"time\":\"1970-01-01T00:00:00.000000Z\",\"kind\":\"start\""));
    CHECK((fs::status(folder.path / "somebody.jsonl").permissions() & fs::perms::others_all) == fs::perms::none);
    site.events.log = "/nowhere/at/all";
    EventLog lost(site, caller);
    CHECK_FALSE(lost.wanted());
    CHECK_NOTHROW(lost.write({}));
    CHECK(event_troubles(site, caller).at(0) == "opening /nowhere/at/all: No such file or directory");
    site.events.log = folder.path / "%n.jsonl";
    CHECK(event_log_path(site, caller) == (folder.path / (host_name() + ".jsonl")).string());
    fs::create_symlink(folder.path / "somebody.jsonl", folder.path / "link");
    site.events.log = folder.path / "link";
    CHECK_FALSE(EventLog(site, caller).wanted());
}

TEST_CASE("event log: one file for all that a user has made loses the events of others, which is told", "[runtime]") {
    Folder folder;
    plan::Caller caller;
    caller.uid = ::getuid();
    caller.user = "somebody";
    plan::Site site;
    site.events.log = folder.path / "all.jsonl";
    { std::ofstream(folder.path / "all.jsonl"); }
    // As whom the tests run.
    if (::getuid() == 0) {
        REQUIRE(::chown((folder.path / "all.jsonl").c_str(), 12345, 0) == 0);
        caller.uid = 12345;
    }
    CHECK_THAT(event_troubles(site, caller).at(0),
               Catch::EndsWith("all.jsonl belongs to you, and other users' events are lost"));
    site.events.log = folder.path / "%U.jsonl";
    CHECK(event_troubles(site, caller).empty());
    // Counters of one folder for all are there, or cannot be written.
    site.events.counters = folder.path / "none";
    CHECK(counters_to_come(site, caller).empty());
    CHECK(event_troubles(site, caller).size() == 1);
    site.events.counters = folder.path / "%U.counters";
    CHECK(counters_to_come(site, caller) == (folder.path / cat(caller.uid, ".counters")).string());
    { std::ofstream(folder.path / cat(caller.uid, ".counters")); }
    CHECK(counters_to_come(site, caller).empty());
}
