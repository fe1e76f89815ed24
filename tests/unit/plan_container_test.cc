#include "runtime/plan/container.hh"

#include <catch2/catch.hpp>

#include "runtime/base/error.hh"

using namespace berth;
using namespace berth::plan;

TEST_CASE("a container's name may say how it is used", "[plan][container]") {
    CHECK(parse_container_name("dev") == ContainerName{"dev", NameMode::automatic});
    CHECK(parse_container_name("dev:auto") == ContainerName{"dev", NameMode::automatic});
    CHECK(parse_container_name("dev:") == ContainerName{"dev", NameMode::automatic});
    CHECK(parse_container_name("a.b-c_1:create") == ContainerName{"a.b-c_1", NameMode::create});
    CHECK(parse_container_name("dev:exec").mode == NameMode::exec);
    CHECK(parse_container_name("dev:no_exec").mode == NameMode::no_exec);
    for (const char* text : {"", ":exec", "a/b", "..", "-x", "a b", "dev:Exec", "dev:exec:exec"})
        CHECK_THROWS_AS(parse_container_name(text), Error);
    CHECK_THROWS_AS(parse_container_name(std::string(300, 'n')), Error);
}

TEST_CASE("a container's record is read as it was written", "[plan][container]") {
    ContainerRecord record{"./it's\nan image",
                           "sha256:1",
                           "/a b",
                           "1 2 3",
                           1763712345,
                           {"/data:/data:ro", "tmpfs:/x"},
                           true,
                           false,
                           std::nullopt,
                           {true, false, true, true, true}};
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
                      Catch::Contains("reading state of c: 'new' is unknown"));
    CHECK_THROWS_WITH(parse_record("berth-container 2\n", "state of c"), Catch::Contains("another version"));
}

TEST_CASE("the mode of a name decides between joining, starting and creating", "[plan][container]") {
    using enum NameMode;
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
