#include "runtime/container/named/folder.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/container/named/created.hh"
#include "runtime/container/named/data_path.hh"
#include "runtime/container/named/instance.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using Catch::Contains;

namespace {

plan::ContainerRecord sample() {
    plan::ContainerRecord record;
    record.image = "r.io/x:1";
    record.created = 7;
    return record;
}

}  // namespace

TEST_CASE("containers are made, found, listed and removed", "[container]") {
    fixtures::TempFolder temp;
    ContainerFolder folder = ContainerFolder::open(temp / "deep/er/data/");
    CHECK(folder.names().empty());
    CHECK_FALSE(folder.find("a"));
    {
        Lock lock = folder.lock("a");
        folder.create("a", sample());
    }
    CHECK(folder.find("a") == sample());
    CHECK(folder.names() == std::vector<std::string>{"a"});
    CHECK(folder.path_of("a") == temp / "deep/er/data/global_a");
    struct stat st {};
    REQUIRE(::stat(folder.path_of("a").c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0700);
    CHECK_FALSE(folder.connect("a"));
    CHECK_FALSE(folder.connect("b"));
    Lock lock = folder.lock("a");
    folder.remove("a");
    CHECK(folder.names().empty());
    CHECK(std::filesystem::is_empty(temp / "deep/er/data/locks"));
}

TEST_CASE("a job's containers are apart from the others", "[container]") {
    fixtures::TempFolder temp;
    ContainerFolder all = ContainerFolder::open(temp / "data"), job = ContainerFolder::open(temp / "data", "job17");
    Lock lock = job.lock("a");
    job.create("a", sample());
    CHECK(all.names().empty());
    CHECK(job.names() == std::vector<std::string>{"a"});
    std::filesystem::create_directories(temp / "data/jobx_a");
    std::filesystem::create_directories(temp / "data/job3_a_b");
    CHECK(all.jobs() == std::vector<uint32_t>{3, 17});
}

TEST_CASE("scopes are those that have containers, whatever the names", "[container][data_path]") {
    fixtures::TempFolder temp;
    std::string of_path = enroot::scope_of_path("/tmp/a");
    ContainerFolder all = ContainerFolder::open(temp / "data"), path = ContainerFolder::open(temp / "data", of_path);
    CHECK(all.scopes().empty());
    CHECK(path.scope() == of_path);
    // Longer than this is no name of a container.
    for (const std::string& name : {std::string("a_b"), std::string(200, 'n')}) {
        Lock lock = path.lock(name);
        path.create(name, sample(), [](int folder) { note_data_path(folder, {"/tmp/a", 7, {}}); });
    }
    all.create("a_b", sample());
    std::filesystem::create_directories(temp / "data/job5_left/upper");
    CHECK(all.scopes() == std::vector<std::string>{of_path, "global"});
    CHECK(all.names() == std::vector<std::string>{"a_b"});
    CHECK(noted_data_path(path, "a_b") == enroot::DataPath{"/tmp/a", 7, {}});
    CHECK(noted_data_path(all, "a_b") == enroot::DataPath{});
    CHECK(noted_data_path(all, "none") == enroot::DataPath{});
}

TEST_CASE("a path's job is over when none of its signs is there, and never without one", "[container][data_path]") {
    fixtures::TempFolder temp;
    std::string here = temp / "here", gone = temp / "gone";
    std::filesystem::create_directories(here);
    CHECK(!is_over({"/x", 7, {}}));
    CHECK(!is_over({"/x", 7, {gone, here}}));
    CHECK(is_over({"/x", 7, {gone, gone + "/below"}}));
    // Only what is not there is no more.
    std::filesystem::create_symlink("loop", temp / "loop");
    CHECK(!is_over({"/x", 7, {temp / "loop"}}));
}

TEST_CASE("a container is made anew elsewhere when the home has another record than it is of", "[container]") {
    fixtures::TempFolder temp;
    plan::Caller caller;
    caller.home = temp / "home";
    ContainerFolder login = ContainerFolder::open(temp / "login"), node = ContainerFolder::open(temp / "node");
    login.create("a", sample());
    CHECK(created_record(caller, login, "a").empty());
    note_created(caller, login, "a");
    std::string first = created_record(caller, node, "a");
    REQUIRE(!first.empty());
    // Its own, or of an earlier release.
    node.create("a", sample());
    CHECK(!is_made_anew(node, "a", first));
    node.create("a", sample(), [&](int folder) { note_made_of(folder, first); });
    CHECK(!is_made_anew(node, "a", first));
    CHECK(!is_made_anew(node, "a", ""));
    plan::ContainerRecord later = sample();
    later.created = 8;
    login.create("a", later);
    note_created(caller, login, "a");
    CHECK(is_made_anew(node, "a", created_record(caller, node, "a")));
}

TEST_CASE("a container is discarded without its lock", "[container]") {
    fixtures::TempFolder temp;
    ContainerFolder folder = ContainerFolder::open(temp / "data");
    Lock lock = folder.lock("a");
    folder.create("a", sample());
    folder.discard("a");
    CHECK(folder.names().empty());
    CHECK(std::filesystem::exists(temp / "data/locks/global_a"));
    folder.create("a", sample());
    Lock hold = folder.hold("a");
    CHECK_THROWS_WITH(folder.discard("a"), Catch::Contains("it is being saved"));
    CHECK(folder.find("a") == sample());
}

TEST_CASE("what a kill left of a container is none, and gives way to the next of its name", "[container]") {
    fixtures::TempFolder temp;
    ContainerFolder folder = ContainerFolder::open(temp / "data");
    std::filesystem::create_directories(temp / "data/global_a/upper/left");
    CHECK_FALSE(folder.find("a"));
    CHECK(folder.names().empty());
    Lock lock = folder.lock("a");
    folder.create("a", sample());
    CHECK_FALSE(std::filesystem::exists(temp / "data/global_a/upper/left"));
    CHECK(folder.names().size() == 1);
}

TEST_CASE("hostile row 51: a folder of containers that is a link, somebody else's or open to others is refused",
          "[container]") {
    fixtures::TempFolder temp;
    std::filesystem::create_directory(temp / "real");
    std::filesystem::create_directory_symlink(temp / "real", temp / "link");
    CHECK_THROWS_WITH(ContainerFolder::open(temp / "link"), Catch::Contains("it is no directory but a link or a file"));
    CHECK_THROWS_WITH(ContainerFolder::open(temp / "link/"),
                      Catch::Contains("it is no directory but a link or a file"));
    REQUIRE(::chmod((temp / "real").c_str(), 0770) == 0);
    CHECK_THROWS_WITH(ContainerFolder::open(temp / "real"),
                      Catch::Contains("others can write to the folder; run chmod go-w"));
    if (::geteuid() == 0) {
        REQUIRE(::chmod((temp / "real").c_str(), 0700) == 0);
        REQUIRE(::chown((temp / "real").c_str(), 1, 1) == 0);
        CHECK_THROWS_WITH(ContainerFolder::open(temp / "real"),
                          Catch::Contains("the folder belongs to uid 1, not to you"));
    }
    CHECK_THROWS_WITH(ContainerFolder::open("relative"), Catch::Contains("must be an absolute path"));
}

TEST_CASE("hostile row 56: names of containers that are paths or options reach no file", "[container]") {
    fixtures::TempFolder temp;
    ContainerFolder folder = ContainerFolder::open(temp / "data");
    for (const std::string& name : {std::string("a/b"), std::string(".."), std::string("-x"), std::string(300, 'n'),
                                    std::string("a\0b", 3), std::string()}) {
        CHECK_THROWS_AS(folder.lock(name), Error);
        CHECK_THROWS_AS(folder.find(name), Error);
        CHECK_THROWS_AS(folder.create(name, sample()), Error);
        CHECK_THROWS_AS(folder.remove(name), Error);
        CHECK_THROWS_AS(folder.connect(name), Error);
    }
    CHECK(std::distance(std::filesystem::directory_iterator(temp / "data"), {}) == 1);
    // A link in the place of a container is not followed.
    std::filesystem::create_directory(temp / "elsewhere");
    std::filesystem::create_directory_symlink(temp / "elsewhere", temp / "data/global_c");
    CHECK_THROWS_AS(folder.find("c"), Error);
    CHECK_THROWS_AS(folder.upper("c"), Error);
}

TEST_CASE("the lock of a container is waited for, and survives its removal by the holder", "[container]") {
    fixtures::TempFolder temp;
    ContainerFolder folder = ContainerFolder::open(temp / "data");
    Lock first = folder.lock("a");
    folder.create("a", sample());
    bool told = false, is_new = false;
    std::atomic<bool> got = false;
    std::thread other([&] {
        Lock second = folder.lock("a", [&] { told = true; });
        got = bool(second);
        // The file that was waited for has gone: this is the new one's lock.
        is_new = std::filesystem::exists(temp / "data/locks/global_a");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    CHECK_FALSE(got);
    folder.remove("a");
    first.unlock();
    other.join();
    CHECK(got);
    CHECK(told);
    CHECK(is_new);
}

TEST_CASE("containers live where the site says, else at home", "[container]") {
    fixtures::TempFolder temp;
    plan::Caller caller;
    caller.uid = 7;
    caller.home = temp.path();
    plan::Site site;
    site.data.path = temp / "%U/c";
    CHECK(open_container_folder(site, caller).path() == temp / "7/c");
    site.data.path = temp / "x";
    std::filesystem::create_directory(temp / "x");
    CHECK(open_container_folder(site, caller).path() == temp / "x");
}

TEST_CASE("what a container wrote is measured", "[container]") {
    fixtures::TempFolder temp;
    std::filesystem::create_directories(temp / "u/a");
    sys::write_all(temp.create("u/a/f").get(), std::string(100'000, 'x'), "f");
    std::filesystem::create_hard_link(temp / "u/a/f", temp / "u/g");
    uint64_t bytes = bytes_on_disk(sys::open_file(temp / "u", O_RDONLY | O_DIRECTORY).get());
    CHECK(bytes >= 100'000);
    CHECK(bytes < 150'000);
}

TEST_CASE("container: the record of an instance comes back as it was written", "[container]") {
    InstanceRecord record{.name = "web",
                          .keeper = 4711,
                          .image = "/home/a/i=1.sif",
                          .out = "/l/web.out",
                          .err = "/l/web\n.err",
                          .home = "/home/a",
                          .entrypoint = {"/bin/sh", "-c", ""},
                          .cmd = {"a=b"},
                          .has_scripts = true};
    CHECK(parse_instance(instance_text(record), "x") == record);
    CHECK_THROWS_AS(parse_instance("", "x"), Error);
    CHECK_THROWS_AS(parse_instance("berth-instance 2", "x"), Error);
    CHECK_THROWS_WITH(parse_instance("berth-instance 1\nname 1\na\n", "x"), Contains("cut short"));
    for (const char* name : {"a", "a.b_c-1", "0"}) CHECK_NOTHROW(check_instance_name(name));
    for (const char* name : {"", ".", "..", "-a", "a/b", "a b", "a:b", "\xc3\xa4"})
        CHECK_THROWS_WITH(check_instance_name(name), Contains("is not a valid instance name"));
}
