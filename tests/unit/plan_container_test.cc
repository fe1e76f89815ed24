#include "runtime/plan/container.hh"

#include "runtime/base/error.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

TEST_CASE("a container's name may say how it is used", "[plan][container]") {
    CHECK(parse_container_name("dev") == ContainerName{"dev", NameMode::automatic});
    CHECK(parse_container_name("dev:auto") == ContainerName{"dev", NameMode::automatic});
    CHECK(parse_container_name("dev:") == ContainerName{"dev", NameMode::automatic});
    CHECK(parse_container_name("a.b-c_1:create") == ContainerName{"a.b-c_1", NameMode::create});
    CHECK(parse_container_name("dev:exec").mode == NameMode::exec);
    CHECK(parse_container_name("dev:no_exec").mode == NameMode::no_exec);
    for (const char* text : {"", ":exec", "a/b", "..", "dev:Exec", "dev:exec:exec"})
        CHECK_THROWS_AS(parse_container_name(text), Error);
    CHECK_THROWS_AS(parse_container_name(std::string(300, 'n')), Error);
}

TEST_CASE("a container's record is read as it was written", "[plan][container]") {
    Request options;
    for (const char* mount : {"/data:/data:ro", "tmpfs:/x"}) {
        options.mounts.push_back(parse_mounts(mount).front());
        options.mount_texts.emplace_back(mount);
    }
    options.mount_home = true;
    options.remap_root = false;
    options.unshare = {true, false, true, true, true};
    ContainerRecord record{"./it's\nan image", "sha256:1", "/a b", "1 2 3", 1763712345, options};
    std::string text = record_text(record);
    CHECK(parse_record(text, "r") == record);
    CHECK(parse_record(record_text({}), "r") == ContainerRecord{});
    for (size_t size = 0; size < text.size(); ++size) {
        INFO(size);
        bool same = false;
        try {
            same = parse_record(text.substr(0, size), "r") == record;
        } catch (const Error&) {
            // Refused is good as well.
        }
        CHECK_FALSE(same);
    }
    CHECK_THROWS_AS(parse_record("berth-container 1\nimage 99999999999999999999\nx\n", "r"), Error);
    CHECK_THROWS_WITH(parse_record("berth-container 1\nnew 1\nx\n", "state of c"),
                      "reading state of c: this berth does not know the record 'new'; a newer release of berth has "
                      "written it: use that one, which can also save the container (berth save)");
    // Nobody is told to remove what another release can read.
    CHECK_THROWS_WITH(parse_record("berth-container 2\nx", "state of c"),
                      "reading state of c: it has form 2, this berth reads 1; a newer release of berth has written it: "
                      "use that one, which can also save the container (berth save)");
    CHECK_THROWS_WITH(parse_record("berth-", "state of c"), Catch::Contains("it is damaged; remove the container"));
}

TEST_CASE("a container's record has the form that it has always had", "[plan][container]") {
    const char* text =
        "berth-container 1\nimage 9\ndebian:12\ndigest 8\nsha256:1\nimage-file 0\n\nidentity 0\n\ncreated 10\n"
        "1763712345\nmount 14\n/data:/data:ro\nmount 8\ntmpfs:/x\nmount-home 4\ntrue\nremap-root 5\nfalse\nwritable 4\n"
        "true\nunshare 3\nipc\nunshare 6\ncgroup\n";
    ContainerRecord record = parse_record(text, "r");
    CHECK(record.options.mount_texts == std::vector<std::string>{"/data:/data:ro", "tmpfs:/x"});
    CHECK(record.options.mounts.size() == 2);
    CHECK(record.options.mount_home == true);
    CHECK(record.options.remap_root == false);
    CHECK(record.options.writable == true);
    CHECK((record.options.unshare == OwnNamespaces{.ipc = true, .cgroup = true}));
    CHECK(record_text(record) == text);
    // What one start wants for itself is not recorded.
    record.options.env = {"A"};
    record.options.workdir = "/w";
    record.options.save = "f";
    CHECK(record_text(record) == text);

    auto with = [](const std::string& line) { return parse_record("berth-container 1\n" + line, "state of c"); };
    CHECK_THROWS_WITH(with("unshare 4\nuser\n"), Catch::Contains("does not know the record 'unshare'"));
    CHECK_THROWS_WITH(with("mount 1\n:\n"), Catch::Contains("does not know the record 'mount'"));
    CHECK_THROWS_WITH(with("writable 5\nmaybe\n"), Catch::Contains("state of c: writable=maybe"));
}

TEST_CASE("what a start leaves open is as it was at the container's creation", "[plan][container]") {
    ContainerRecord record;
    record.options.mount_home = true;
    record.options.writable = false;
    record.options.mounts = parse_mounts("/data");
    record.options.mount_texts = {"/data"};
    record.options.unshare.net = true;
    Request run, exec;
    run.writable = true;
    take_recorded_options(run, record, false);
    CHECK(run.writable == true);
    CHECK(run.mount_home == true);
    CHECK(run.remap_root == std::nullopt);
    CHECK(run.mounts.empty());
    CHECK_FALSE(run.unshare.net);
    take_recorded_options(exec, record, true);
    CHECK(exec == record.options);
}

TEST_CASE("the mode of a name decides between joining, starting and creating", "[plan][container]") {
    constexpr auto automatic = NameMode::automatic, create = NameMode::create, exec = NameMode::exec,
                   no_exec = NameMode::no_exec;
    auto does = [](NameMode mode, bool exists, bool runs) { return action_for({"c", mode}, exists, runs); };
    CHECK(does(automatic, true, true) == NameAction::join);
    CHECK(does(automatic, true, false) == NameAction::start);
    CHECK(does(automatic, false, false) == NameAction::create);
    CHECK(does(create, false, false) == NameAction::create);
    CHECK(does(exec, true, true) == NameAction::join);
    CHECK(does(no_exec, true, false) == NameAction::start);
    CHECK(does(no_exec, false, false) == NameAction::create);
    CHECK_THROWS_WITH(does(create, true, false), Catch::Contains("exists already"));
    CHECK_THROWS_WITH(does(create, true, true), Catch::Contains("exists already"));
    CHECK_THROWS_WITH(does(exec, true, false), Catch::Contains("does not run"));
    CHECK_THROWS_WITH(does(exec, false, false), Catch::Contains("there is none of that name"));
    // Its mounts are not shared.
    CHECK(does(no_exec, true, true) == NameAction::beside);
}
